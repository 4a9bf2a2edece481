"""Ready-made parametrizations: weight norm, spectral norm, orthogonal matrices.

Source: torch.nn.utils.parametrizations.
"""

from __future__ import annotations

from typing import Any

from gradhook.modes import no_grad
from gradhook.nn.functional import normalize
from gradhook.nn.module import Module
from gradhook.nn.utils import parametrize
from gradhook.nn.utils.orthogonal import MAPS, _Orthogonal
from gradhook.nn.utils.spectral_norm import as_matrix, output_dim, random_unit
from gradhook.nn.utils.weight_norm import norm_except_dim, normalized
from gradhook.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix (..., m, n) orthogonal, or unitary: columns of norm 1 that are orthogonal for
    m >= n, such rows else.

    orthogonal_map: "matrix_exp", "cayley" or "householder" (None: "matrix_exp" for a square or
    complex one, else "householder"); the first two map a skew-Hermitian matrix to a unitary one,
    the third multiplies reflections, of real matrices. use_trivialization: map to the change from a
    fixed matrix, the buffer `base` of the parametrization; without it only "householder" can be
    assigned to. The start value is the tensor itself where it is orthogonal, else the Q of its QR
    decomposition. Returns module. Errors: ValueError. Source: Lezcano-Casado, 2019;
    torch.nn.utils.parametrizations.orthogonal.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """(g, v) to g * v / ||v||."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normalized(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a tensor g * v / ||v||: `original0` is g, its norms, and `original1` v, its direction.

    dim: the dimension that keeps its norms apart (0: output rows or channels); None: one norm.
    Returns module, which loads states of nn.utils.weight_norm (`name_g`, `name_v`) too.
    Source: Salimans and Kingma, 2016; torch.nn.utils.parametrizations.weight_norm.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_older_names(state_dict: Any, prefix: str, *args: Any) -> None:
        older = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in older):
            for i, key in enumerate(older):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_older_names)
    return module


class _SpectralNorm(Module):
    """A tensor divided by its largest singular value, with the vectors `_u`, `_v` of that value."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:  # the norm of a vector is exact
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            self.register_buffer("_u", random_unit(matrix, matrix.shape[0], eps))
            self.register_buffer("_v", random_unit(matrix, matrix.shape[1], eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            normalize(weight_mat.mv(self._v), dim=0, eps=self.eps, out=self._u)
            normalize(weight_mat.H.mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # the graph keeps these; the next forward writes to the buffers
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a tensor by its largest singular value, a vector by its norm.

    The value is found by power iteration: 15 steps at the start, and n_power_iterations whenever
    the tensor is read in training mode, which write to the buffers `_u` and `_v` of the
    parametrization. dim: the dimension of outputs (None: 0, and 1 of a transposed convolution), the
    others count as one. Returns module. Errors: ValueError, IndexError. Source: Miyato et al.,
    2018; torch.nn.utils.parametrizations.spectral_norm.
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, made)
