"""Builds the optional compiled core with Cython: GRADHOOK_COMPILE=1 pip wheel ."""
