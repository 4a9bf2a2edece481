"""Gaussian filters and derivatives: correlations along one axis after another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook.ndimage.arguments import axes_of, constants, each, image
from gradhook.ndimage.filters import correlate1d
from gradhook.tensor import Tensor


@functools.lru_cache(maxsize=256)
def _gaussian(sigma: float, order: int, radius: int) -> tuple[float, ...]:
    """Weights of a Gaussian's derivative at -radius..radius, for a correlation.

    The Gaussian times a polynomial q, where each derivative takes q to q' - q x / sigma^2.
    """
    x = np.arange(-radius, radius + 1, dtype=np.float64)
    phi = np.exp(-0.5 * (x / sigma) ** 2)
    phi /= phi.sum()
    q = np.polynomial.Polynomial([1.0])
    for _ in range(order):
        q = q.deriv() - q * np.polynomial.Polynomial([0.0, 1.0 / sigma**2])
    return tuple((q(x) * phi)[::-1].tolist())


def gaussian_filter1d(
    input: Any,
    sigma: float,
    axis: int = -1,
    order: int = 0,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Tensor:
    """input smoothed by a Gaussian along an axis, or correlated with its derivative of an order.

    sigma: the deviation in elements. The weights end `truncate` deviations, or `radius` elements,
    from the center. Result: as input. Errors: ValueError for a negative order or radius. Source:
    scipy.ndimage.gaussian_filter1d.
    """
    x = image(input, "gaussian_filter1d")
    sigma = float(sigma)
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if order < 0 or reach != int(reach) or reach < 0:
        raise ValueError(
            f"gaussian_filter1d(): found order={order}, radius={reach}, expected integers from 0"
        )
    return correlate1d(x, constants(_gaussian(sigma, order, int(reach)), x), axis, mode, cval)


def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    mode: Any = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Tensor:
    """input smoothed by a Gaussian along all axes, or `axes`.

    sigma, order, mode, radius: one for all axes, or one each. Result: as input. Source:
    scipy.ndimage.gaussian_filter.
    """
    x = image(input, "gaussian_filter")
    where = axes_of(axes, x.ndim, "gaussian_filter")
    given = ((sigma, "sigma"), (order, "order"), (mode, "mode"), (radius, "radius"))
    options = [each(v, len(where), "gaussian_filter", what) for v, what in given]
    for axis, s, o, m, r in zip(where, *options, strict=True):
        if s > 1e-15:
            x = gaussian_filter1d(x, s, axis, o, m, cval, truncate, radius=r)
    return x


def _crosswise(
    name: str, input: Any, axis: int, mode: Any, cval: float, smooth: tuple[float, ...]
) -> Tensor:
    """A central difference along one axis, smoothed along the others."""
    x = image(input, name)
    (along,) = axes_of(axis, x.ndim, name)
    modes = each(mode, x.ndim, name, "mode")
    found = correlate1d(x, constants((-1, 0, 1), x), along, modes[along], cval)
    for k in range(x.ndim):
        if k != along:
            found = correlate1d(found, constants(smooth, x), k, modes[k], cval)
    return found


def prewitt(input: Any, axis: int = -1, mode: Any = "reflect", cval: float = 0.0) -> Tensor:
    """The Prewitt filter's derivative along an axis. Result: as input. Source:
    scipy.ndimage.prewitt.
    """
    return _crosswise("prewitt", input, axis, mode, cval, (1, 1, 1))


def sobel(input: Any, axis: int = -1, mode: Any = "reflect", cval: float = 0.0) -> Tensor:
    """The Sobel filter's derivative along an axis. Result: as input. Source:
    scipy.ndimage.sobel.
    """
    return _crosswise("sobel", input, axis, mode, cval, (1, 2, 1))


def _summed(
    name: str, input: Any, mode: Any, axes: Any, term: Callable[[Tensor, int, str], Tensor]
) -> Tensor:
    """The sum over axes of `term(x, axis, mode)`."""
    x = image(input, name)
    where = axes_of(axes, x.ndim, name)
    found: Tensor | None = None
    for axis, m in zip(where, each(mode, len(where), name, "mode"), strict=True):
        one = term(x, axis, m)
        found = one if found is None else found + one
    return x.clone() if found is None else found


def laplace(input: Any, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None) -> Tensor:
    """The sum of second differences along all axes, or `axes`. Result: as input. Source:
    scipy.ndimage.laplace.
    """
    return _summed(
        "laplace", input, mode, axes,
        lambda x, k, m: correlate1d(x, constants((1, -2, 1), x), k, m, cval),
    )  # fmt: skip


def gaussian_laplace(
    input: Any, sigma: Any, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """The Laplacian of input smoothed by a Gaussian: the sum of its second derivatives.

    options: those of gaussian_filter. Result: as input. Source: scipy.ndimage.gaussian_laplace.
    """
    return _derivatives("gaussian_laplace", input, sigma, mode, cval, axes, options, 2)


def gaussian_gradient_magnitude(
    input: Any, sigma: Any, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """The length of the gradient of input smoothed by a Gaussian. Where it is 0 its own gradient is
    nan, as that of sqrt is. Result: as input, real. Source:
    scipy.ndimage.gaussian_gradient_magnitude.
    """
    name = "gaussian_gradient_magnitude"
    return _derivatives(name, input, sigma, mode, cval, axes, options, 1).sqrt()


def _derivatives(
    name: str, input: Any, sigma: Any, mode: Any, cval: float, axes: Any, options: Any, order: int
) -> Tensor:
    """The sum over axes of the Gaussian derivative along it, for order 1 of its square."""
    x = image(input, name)
    where = axes_of(axes, x.ndim, name)
    sigmas = each(sigma, len(where), name, "sigma")

    def term(x: Tensor, axis: int, _: str) -> Tensor:
        orders = [order * (k == axis) for k in where]
        found = gaussian_filter(x, sigmas, orders, mode, cval, axes=where, **options)
        return found * found if order == 1 else found

    return _summed(name, x, "reflect", where, term)
