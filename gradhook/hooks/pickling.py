"""Tensor hooks are not pickled: who is warned of it, and how a hook says that this is meant."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

Marked = TypeVar("Marked")


def unserializable_hook(f: Marked) -> Marked:
    """Mark a hook as one that need not survive pickling, so nobody is warned; a decorator."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """A UserWarning for each hook of the tensor that pickling would lose, but for marked ones.

    Source: torch.utils.hooks.
    """
    hooks = tensor._backward_hooks
    for hook in hooks.snapshot() if hooks else ():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @gradhook.utils.hooks.unserializable_hook to "
                "suppress this warning; else register it again after loading",
                stacklevel=4,
            )
