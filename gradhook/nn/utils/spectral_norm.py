"""Spectral normalization by a forward-pre hook, PyTorch's older form of it.

The newer one is gradhook.nn.utils.parametrizations.spectral_norm. Source: Miyato et al., 2018, and
torch.nn.utils.spectral_norm.
"""

from __future__ import annotations

from typing import Any, TypeVar

from gradhook import linalg as _linalg
from gradhook.modes import no_grad
from gradhook.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gradhook.nn.functional import normalize
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter, is_lazy
from gradhook.nn.utils.hooked import hooks_of
from gradhook.tensor import Tensor

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

M = TypeVar("M", bound=Module)
linalg: Any = _linalg  # its functions are made from the table


def output_dim(module: Module, dim: int | None) -> int:
    """dim, or for None the dimension of a weight that stands for outputs."""
    if dim is not None:
        return dim
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """weight as (size of dim, all others)."""
    weight = weight if dim == 0 else weight.movedim(dim, 0)
    return weight.reshape(weight.shape[0], -1)


def random_unit(matrix: Tensor, size: int, eps: float) -> Tensor:
    """A random vector of norm 1, of the dtype and on the device of matrix."""
    return normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps)


class SpectralNorm:
    """The forward-pre hook that makes `name` anew from `name_orig`, divided by its largest singular
    value; `name_u` and `name_v` are the vectors of that value as the power iteration has found
    them.

    In training each forward makes n_power_iterations more, which write to the two buffers.
    Errors: ValueError for n_power_iterations below 1. Source: torch.nn.utils.SpectralNorm.
    """

    _version: int = 1  # since 1 the state has `name_v` and no `name`
    name: str
    dim: int
    n_power_iterations: int
    eps: float

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        self.name = name
        self.dim = dim
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """weight as (size of dim, all others)."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The normalized tensor, with its history; shape of `name_orig`."""
        weight: Tensor = getattr(module, self.name + "_orig")
        u: Tensor = getattr(module, self.name + "_u")
        v: Tensor = getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    normalize(matrix.t().mv(u), dim=0, eps=self.eps, out=v)
                    normalize(matrix.mv(v), dim=0, eps=self.eps, out=u)
                # the graph keeps these; the next forward writes to the buffers
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make `name` a parameter again, with the value it has now."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    def _solve_v_and_rescale(self, weight_mat: Tensor, u: Tensor, target_sigma: Tensor) -> Tensor:
        """The v of an older state: u = normalize(W v) and u W v = target_sigma."""
        v: Tensor = linalg.pinv(weight_mat.t().mm(weight_mat)).mv(weight_mat.t().mv(u))
        return v.mul_(target_sigma / u.dot(weight_mat.mv(v)))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Register the hook on a module, and its state hooks; `name` moves to `name_orig`.

        Errors: RuntimeError where there is one already; ValueError for a parameter that is None or
        uninitialized.
        """
        for _, hook in hooks_of(module, "_forward_pre_hooks", SpectralNorm):
            if hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            matrix = fn.reshape_weight_to_matrix(weight)
            u, v = (random_unit(matrix, n, eps) for n in matrix.shape)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # for code that looks at it before the first forward
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """The load pre-hook that finds `name_v` for a state of version 0, which has `name` instead.

    Source: torch.nn.utils.spectral_norm.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        if version is None and key not in state_dict:
            if all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v")):
                return  # a newer state without its metadata
        missing = [key + s for s in ("_orig", "", "_u") if key + s not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            weight = state_dict.pop(key)  # original / sigma; it may hold zeros
            sigma = (original * weight).sum() / (weight * weight).sum()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """The state_dict post-hook that notes the version. Source: torch.nn.utils.spectral_norm."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a parameter by its largest singular value before each forward.

    n_power_iterations: how many steps each forward in training makes towards that value; dim: the
    dimension of outputs (None: 0, and 1 of a transposed convolution), the others count as one. The
    parameter moves to `name_orig`; the buffers `name_u` and `name_v` hold the vectors. Returns
    module. Errors: RuntimeError, ValueError. Source: torch.nn.utils.spectral_norm.
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Take spectral_norm back: `name` is a parameter of the value it has now. Returns module.

    Errors: ValueError where there is none. Source: torch.nn.utils.remove_spectral_norm.
    """
    for key, hook in hooks_of(module, "_forward_pre_hooks", SpectralNorm):
        if hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, saver in hooks_of(module, "_state_dict_hooks", SpectralNormStateDictHook):
        if saver.fn.name == name:
            del module._state_dict_hooks[key]
    for key, loader in hooks_of(
        module, "_load_state_dict_pre_hooks", SpectralNormLoadStateDictPreHook
    ):
        if loader.fn.name == name:
            del module._load_state_dict_pre_hooks[key]
    return module
