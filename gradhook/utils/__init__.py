"""Tools beside the networks. Source of names: torch.utils."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradhook.utils import checkpoint as checkpoint
from gradhook.utils import hooks as hooks

if TYPE_CHECKING:
    from gradhook.utils import data as data


def __getattr__(name: str) -> Any:
    """`data` when it is first asked for: it imports multiprocessing."""
    if name == "data":
        return import_module("gradhook.utils.data")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
