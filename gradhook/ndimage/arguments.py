"""What the filters' arguments mean: tensors, modes, axes, a value for each axis; constant weights
on a tensor's device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd.binding import make
from gradhook.autograd.operands import tensor_of
from gradhook.ops.boundary import MODES
from gradhook.tensor import Tensor

SAME = {"grid-mirror": "reflect", "grid-constant": "constant", "grid-wrap": "wrap"}


def image(x: Any, name: str) -> Tensor:
    """A floating or complex Tensor. Errors: TypeError for what is no tensor or array."""
    x = tensor_of(x, f"{name}()")
    found: Tensor = x if x._a.dtype.kind in "fcV" else x.to(dtypes.get_default_dtype())
    return found


def mode_of(mode: str, name: str) -> str:
    """The plain name of a filter's mode. Errors: ValueError for an unknown one."""
    found = SAME.get(mode, mode)
    if found not in MODES:
        raise ValueError(f"{name}(): found the mode {mode!r}, expected one of {(*MODES, *SAME)}")
    return found


def axes_of(axes: Any, ndim: int, name: str) -> tuple[int, ...]:
    """Axes from 0; all for None. Errors: ValueError for one that is not there or stands twice."""
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(a + ndim if a < 0 else a for a in given)
    if len(set(found)) != len(found) or any(not 0 <= a < ndim for a in found):
        raise ValueError(f"{name}(): found the axes {given}, expected different ones of {ndim}")
    return found


def each(value: Any, count: int, name: str, what: str) -> list[Any]:
    """One value an axis, from one for all or a sequence of that length, else RuntimeError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value] * count
    found = list(value)
    if len(found) != count:
        raise RuntimeError(f"{name}(): {what} has {len(found)} values, expected {count}")
    return found


def constants(values: Sequence[float], like: Tensor) -> Tensor:
    """Weights that no gradient goes to, of like's real dtype and on its device: sent there once."""
    real = np.zeros(0, like._a.dtype).real.dtype
    key = backend.stream_key() if like.is_cuda else None
    return _sent(tuple(float(v) for v in values), real, str(like.device), key)


@functools.lru_cache(maxsize=256)
def _sent(values: tuple[float, ...], dtype: Any, device: str, key: Any) -> Tensor:
    found: Tensor = make(backend.to_device(np.array(values).astype(dtype), device))
    return found
