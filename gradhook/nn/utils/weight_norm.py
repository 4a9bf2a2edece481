"""Weight normalization by a forward-pre hook, PyTorch's older form of it.

The newer one is gradhook.nn.utils.parametrizations.weight_norm. Source: Salimans and Kingma, 2016,
and torch.nn.utils.weight_norm.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter, is_lazy
from gradhook.nn.recorded import ops as xp
from gradhook.nn.utils.hooked import hooks_of
from gradhook.tensor import Tensor

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """The 2-norm of v over all dimensions but dim, which stay as ones; dim -1: over all, 0-d."""
    if dim == -1:
        return xp.vector_norm(v, ord=2, axis=None, keepdims=False)
    if not -v.ndim <= dim < v.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-v.ndim}, {v.ndim - 1}], but "
            f"got {dim})"
        )
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    if not others:
        return abs(v)
    return xp.vector_norm(v, ord=2, axis=others, keepdims=True)


def normalized(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """v with the norms g: v * (g / norm), shape of v."""
    made: Tensor = v * (g / norm_except_dim(v, dim))
    return made


class WeightNorm:
    """The forward-pre hook that makes `name` anew from `name_g`, its norms, and `name_v`, its
    direction.

    dim: the dimension that keeps its norms apart; None: one norm of the whole tensor.
    Source: torch.nn.utils.weight_norm.WeightNorm.
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The normalized tensor, with its history; its shape is that of `name_v`."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return normalized(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Register the hook on a module and put the two parameters in place of `name`.

        Errors: RuntimeError where there is one already; ValueError for an uninitialized parameter.
        """
        warnings.warn(
            "`gradhook.nn.utils.weight_norm` is deprecated in favor of "
            "`gradhook.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for _, hook in hooks_of(module, "_forward_pre_hooks", WeightNorm):
            if hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying weight normalization"
            )
        norms = norm_except_dim(weight, fn.dim)
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norms.detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make `name` a parameter again, with the value it has now."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Make a parameter g * v / ||v|| of two parameters, `name_g` and `name_v`, before each forward.

    dim: the dimension that keeps its norms apart (0: output rows or channels); None: one norm.
    Returns module. Deprecated, it warns: parametrizations.weight_norm takes its state_dicts.
    Errors: RuntimeError, ValueError. Source: torch.nn.utils.weight_norm.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Take weight_norm back: `name` is a parameter of the value it has now. Returns module.

    Errors: ValueError where there is none. Source: torch.nn.utils.remove_weight_norm.
    """
    for key, hook in hooks_of(module, "_forward_pre_hooks", WeightNorm):
        if hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
