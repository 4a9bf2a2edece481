"""Clipping of gradients, in place, without a device wait."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.autograd.inplace import unlend
from gradhook.creation import tensor as make_tensor
from gradhook.kernels import optimizer as kernels
from gradhook.kernels.launch import is_plain
from gradhook.storage import bump
from gradhook.tensor import Tensor


def _listed(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _take_kernels(arrays: list[Any]) -> bool:
    """Whether one launch norms and one clips these: contiguous CuPy arrays of one dtype."""
    if not arrays or not backend.is_cupy(arrays[0]):
        return False
    distinct = len({a.data.ptr for a in arrays}) == len(arrays)
    return distinct and all([backend.is_cupy(a) and a.size for a in arrays]) and is_plain(*arrays)


def _norm(xp: Any, a: Any, norm_type: float) -> Any:
    """The norm of all elements, as a 0-d array of the real dtype."""
    if norm_type == math.inf:
        return xp.abs(a).max()
    if norm_type == -math.inf:
        return xp.abs(a).min()
    if norm_type == 2 and a.dtype.kind == "f":
        flat = a.reshape(-1)
        return xp.sqrt(xp.dot(flat, flat))
    if norm_type == 0:
        return (a != 0).sum().astype(a.real.dtype)
    return (xp.abs(a) ** norm_type).sum() ** (1.0 / norm_type)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as one vector, 0-d; it stays on their device.

    foreach is accepted, it changes nothing.

    Errors: RuntimeError with error_if_nonfinite when it is NaN or infinite (this reads the value).
    """
    arrays = [t._a for t in _listed(tensors)]
    norm_type = float(norm_type)
    if not arrays:
        return make_tensor(0.0)
    xp = ARRAY_MODULES[type(arrays[0])]
    norms = [xp.asarray(_norm(xp, a, norm_type)) for a in arrays]
    total: Tensor = make(xp.asarray(_norm(xp, xp.stack(norms), norm_type)))
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients, in place, by min(1, max_norm / (total_norm + 1e-6))."""
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    if not grads:
        return
    xp = ARRAY_MODULES[type(grads[0]._a)]
    factor = xp.minimum(float(max_norm) / (total_norm._a + 1e-6), 1.0)
    for g in grads:
        unlend(g)
        g._a *= factor.astype(g._a.dtype)
        bump(g)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients, in place, so that their norm as one vector is at most max_norm; returns
    the norm before.

    Errors: RuntimeError with error_if_nonfinite when the norm is NaN or infinite.
    """
    listed = _listed(parameters)
    if not listed and isinstance(parameters, GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    grads = [p.grad for p in listed if p.grad is not None]
    for g in grads:
        unlend(g)
    if norm_type == 2 and not error_if_nonfinite and _take_kernels([g._a for g in grads]):
        norm: Tensor = make(kernels.clip_norm([g._a for g in grads], float(max_norm)))
        for g in grads:
            bump(g)
        return norm
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(listed, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """clip_grad_norm_ under its older name; it warns."""
    warnings.warn(
        "`gradhook.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`gradhook.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Cut every element of the gradients, in place, to [-clip_value, clip_value]."""
    limit = float(clip_value)
    for p in _listed(parameters):
        if p.grad is not None:
            unlend(p.grad)
            a = p.grad._a
            ARRAY_MODULES[type(a)].clip(a, -limit, limit, out=a)
            bump(p.grad)
