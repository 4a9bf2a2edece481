"""Spatial transformers: grids of points from affine maps, and sampling at them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from gradhook import creation
from gradhook.hooks.notices import caller_depth
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. See the documentation of "
    "grid_sample for details."
)
_UNIT = (
    "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
    "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
    "affine_grid for details."
)


def _check_sampling(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    a, g = input._a, grid._a
    if input.device != grid.device:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to be on same device, but input is on "
            f"{input.device} and grid is on {grid.device}"
        )
    shapes = f"input with sizes {list(a.shape)} and grid with sizes {list(g.shape)}"
    if a.ndim not in (4, 5) or a.ndim != g.ndim:
        if a.ndim >= 2 and g.ndim and g.shape[-1] != a.ndim - 2:
            raise RuntimeError(
                f"grid_sampler(): expected grid to have size {a.ndim - 2} in last dimension, but "
                f"got grid with sizes {list(g.shape)}"
            )
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got {shapes}"
        )
    if a.shape[0] != g.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {shapes}"
        )
    if g.shape[-1] != a.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {a.ndim - 2} in last dimension, but got "
            f"grid with sizes {list(g.shape)}"
        )
    for d, size in enumerate(a.shape[2:], 2):
        if size == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(a.shape)} with dimension {d} being empty"
            )
    if mode == "bicubic" and a.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if a.dtype != g.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.title} but found {grid.dtype.title}: input and "
            "grid need one dtype"
        )
    if a.dtype.kind != "f" and input.dtype.title != "BFloat16":
        raise NotImplementedError(f"grid_sample is not implemented for {input.dtype.title!r}")


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """input at the points of a grid, for images and volumes.

    input: (batch, channels, h, w) or (batch, channels, d, h, w), floating. grid: (batch, *places, 2
    or 3) of its dtype: x, y (, z) from -1 to 1 across the input. padding_mode: what lies outside:
    "zeros", "border", "reflection". align_corners: -1 and 1 are the centres of the corner pixels.
    Result: (batch, channels, *places). Errors: ValueError, RuntimeError, NotImplementedError.
    Source: torch.nn.functional.grid_sample, whose gradient for grid it has, too; a NaN in grid
    gives NaN or a border's element, never memory outside.
    """
    _check_sampling(input, grid, mode, padding_mode)
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=caller_depth())
    return xp.grid_sample(
        input, grid, mode=mode, padding=padding_mode, align_corners=bool(align_corners)
    )


def _ends(size: int, align_corners: bool, theta: Tensor) -> Tensor:
    """The middles of `size` pixels between -1 and 1; first and last at -1 and 1 where aligned."""
    if size == 1:
        return creation.zeros(1, dtype=theta.dtype, device=theta.device)
    end = 1.0 if align_corners else 1.0 - 1.0 / size
    return creation.linspace(-end, end, size, dtype=theta.dtype, device=theta.device)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Points of a grid under affine maps, for grid_sample.

    theta: (batch, 2, 3) or (batch, 3, 4), floating; size: the output's, (batch, channels, h, w) or
    (batch, channels, d, h, w). Result: (batch, h, w, 2) or (batch, d, h, w, 3).
    Errors: ValueError, NotImplementedError, RuntimeError. Source: torch.nn.functional.affine_grid.
    """
    if theta._a.dtype.kind != "f" and theta.dtype.title != "BFloat16":
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    shape, n = tuple(int(k) for k in size), len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {shape}."
        )
    if theta._a.ndim != 3 or tuple(theta._a.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {shape}. "
            f"Got {tuple(theta._a.shape)}."
        )
    if min(shape) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {shape}")
    if theta._a.shape[0] != shape[0]:
        raise RuntimeError(
            f"affine_grid: expected {shape[0]} matrices, one an image, but theta has "
            f"{theta._a.shape[0]}"
        )
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=caller_depth())
    places = shape[2:]
    if align_corners and min(places) == 1:
        warnings.warn(_UNIT, stacklevel=caller_depth())
    columns = []
    for axis in range(n - 1, -1, -1):
        points = _ends(places[axis], bool(align_corners), theta)
        turned = xp.reshape(points, shape=(-1, *(1,) * (n - 1 - axis)))
        columns.append(xp.expand(turned, size=places))
    columns.append(creation.ones(*places, dtype=theta.dtype, device=theta.device))
    base = xp.reshape(xp.stack(*columns, axis=-1), shape=(1, -1, n + 1))
    base = xp.expand(base, size=(shape[0], *base._a.shape[1:]))
    found = xp.matmul(base, xp.matrix_transpose(theta))
    return xp.reshape(found, shape=(shape[0], *places, n))
