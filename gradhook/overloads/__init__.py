"""Public functions whose PyTorch signature is more than one op: several forms, named results,
Python numbers.

`__all__`: functions of the package. METHODS, PROPERTIES: name -> function of Tensor methods and
read-only Tensor properties. INPLACE: name -> function of the in-place methods that need more than a
table op. OLDER: function -> its name in a module that has a newer one of the same name.
FUNCTIONAL: names here that belong in nn.functional (also).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradhook.overloads import (
    arithmetic,
    arrange,
    checked,
    convert,
    copies,
    creating,
    drawing,
    gathering,
    joining,
    linalg_factors,
    linalg_lowrank,
    linalg_lu,
    linalg_norms,
    linalg_solving,
    order,
    products,
    quantiles,
    reduction,
    shape,
    spectral,
    statistics,
    striding,
    writes,
)

_MODULES = (
    arithmetic,
    arrange,
    checked,
    convert,
    copies,
    creating,
    drawing,
    gathering,
    joining,
    linalg_factors,
    linalg_lowrank,
    linalg_lu,
    linalg_norms,
    linalg_solving,
    order,
    products,
    quantiles,
    reduction,
    shape,
    spectral,
    statistics,
    striding,
)

__all__: list[str] = []
METHODS: dict[str, Callable[..., Any]] = {}
PROPERTIES: dict[str, Callable[..., Any]] = {}
FUNCTIONAL: list[str] = ["relu", "softmax", "log_softmax", "tanh", "sigmoid"]
INPLACE: dict[str, Callable[..., Any]] = {**writes.INPLACE, **drawing.INPLACE, **copies.INPLACE}

for _module in _MODULES:
    _older = getattr(_module, "OLDER", {})
    for _name in _module.FUNCTIONS:
        globals()[_name] = getattr(_module, _older.get(_name, _name))
    __all__ += _module.FUNCTIONS
    for _names, _found in ((_module.METHODS, METHODS), (_module.PROPERTIES, PROPERTIES)):
        _found.update((n, getattr(_module, _module.RENAMED.get(n, n))) for n in _names)
