"""Making a module without drawing its parameters."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from gradhook.nn.init import skipping
from gradhook.nn.module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module whose parameters are not initialised: the functions of nn.init leave tensors as they
    are while its constructor runs, and no random number is drawn.

    module_cls: a class of Modules that takes `device`; args, kwargs: for its constructor.
    Errors: RuntimeError for another class. Source: torch.nn.utils.skip_init.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with skipping():
        return module_cls(*args, **kwargs)
