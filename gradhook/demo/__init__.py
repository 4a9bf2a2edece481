"""The demonstration: a digit classifier with hooks on every layer, a table and a picture."""

from gradhook.demo.command import main as main
