"""PyTorch's import path of hook handles and of what is said about pickling hooks."""

from gradhook.hooks.handle import RemovableHandle as RemovableHandle
from gradhook.hooks.pickling import unserializable_hook as unserializable_hook
from gradhook.hooks.pickling import warn_if_has_hooks as warn_if_has_hooks

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]
