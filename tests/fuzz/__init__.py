"""Random programs of hooked modules, views, in-place writes and passes, and what must hold."""
