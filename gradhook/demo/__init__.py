"""The demonstration: a digit classifier with hooks on every layer, a table and a picture.

The model needs only gradhook; `command` imports the packages of the extra `demo`.
"""
