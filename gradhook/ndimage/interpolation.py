"""Sampling an image at places between its elements: nearest (order 0) and linear (order 1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, prod, radians, sin
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd.binding import make
from gradhook.ndimage.arguments import axes_of, each, image
from gradhook.ndimage.sampling import MODES, sampled
from gradhook.tensor import Tensor


def map_coordinates(
    input: Any, coordinates: Any, order: int = 1, mode: str = "constant", cval: float = 0.0
) -> Tensor:
    """input at `coordinates`, interpolated; both get gradients (coordinates none at order 0).

    input: n dimensions. coordinates: (n, ...), in elements. order: 0 or 1, SciPy's default is 3.
    mode: reflect, constant (cval outside), grid-constant (it goes on with cval), nearest, mirror,
    wrap (the last element is the first), grid-wrap. Result: shape coordinates.shape[1:], dtype of
    input. Errors: NotImplementedError for another order, ValueError for another mode, RuntimeError
    for another number of coordinates. Source: scipy.ndimage.map_coordinates.
    """
    x = image(input, "map_coordinates")
    c = image(coordinates, "map_coordinates")
    if c.ndim == 0 or c.shape[0] != x.ndim:
        raise RuntimeError(
            f"map_coordinates(): found coordinates of shape {tuple(c.shape)}, expected "
            f"({x.ndim}, ...) for input of {x.ndim} dimensions"
        )
    _check("map_coordinates", order, mode)
    where = [c[k].reshape(-1) for k in range(x.ndim)]
    count = prod(c.shape[1:])
    return sampled(x.reshape(*x.shape, 1), where, count, order, mode, cval).reshape(c.shape[1:])


def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Sequence[int] | None = None,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Tensor:
    """input at `matrix @ o + offset` for each output position o; matrix and offset get gradients.

    input: n dimensions. matrix: (n, n), (n,) for a diagonal one, or (n, n + 1) or (n + 1, n + 1)
    with the offset as last column. output_shape: that of input by default. The rest is as in
    map_coordinates. Result: output_shape, dtype of input. Source: scipy.ndimage.affine_transform.
    """
    x = image(input, "affine_transform")
    n = x.ndim
    m = _numbers(matrix)
    if tuple(m.shape) not in ((n, n), (n,), (n, n + 1), (n + 1, n + 1)):
        raise RuntimeError(
            f"affine_transform(): found a matrix of shape {tuple(m.shape)}, expected ({n}, {n}), "
            f"({n},), ({n}, {n + 1}) or ({n + 1}, {n + 1})"
        )
    _check("affine_transform", order, mode)
    shape = tuple(x.shape) if output_shape is None else tuple(int(k) for k in output_shape)
    if m.ndim == 2 and m.shape[1] == n + 1:
        shifts = m[:n, n]
        m = m[:n, :n]
    else:
        shifts = _each(_numbers(offset), n, "affine_transform", "an offset")
    where = []
    for k in range(n):
        c = _entry(shifts, k)
        for j in range(n) if m.ndim == 2 else (k,):
            line = _line(shape[j], x).reshape((-1,) + (1,) * (n - 1 - j))
            c = c + _entry(m, *((k, j) if m.ndim == 2 else (k,))) * line
        where.append(c.expand(shape).reshape(-1))
    return sampled(x.reshape(*x.shape, 1), where, prod(shape), order, mode, cval).reshape(shape)


def shift(
    input: Any, shift: Any, order: int = 1, mode: str = "constant", cval: float = 0.0
) -> Tensor:
    """input moved by `shift` elements along each axis, which may be a tensor and gets a gradient.

    shift: one number for all axes, or one each. The rest is as in map_coordinates. Result: as
    input. Source: scipy.ndimage.shift.
    """
    x = image(input, "shift")
    _check("shift", order, mode)
    s = _each(_numbers(shift), x.ndim, "shift", "a shift")
    for k in range(x.ndim):
        x = _along(x, k, _line(int(x.shape[k]), x) - _entry(s, k), order, mode, cval)
    return x


def zoom(
    input: Any,
    zoom: Any,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    *,
    grid_mode: bool = False,
) -> Tensor:
    """input with round(n * zoom) elements along each axis.

    zoom: one number for all axes, or one each. grid_mode: elements are areas, not points. The rest
    is as in map_coordinates. Result: dtype of input. Source: scipy.ndimage.zoom.
    """
    x = image(input, "zoom")
    _check("zoom", order, mode)
    for k, factor in enumerate(each(zoom, x.ndim, "zoom", "zoom")):
        n = int(x.shape[k])
        m = round(n * float(factor))
        line = _line(m, x)
        if grid_mode:
            where = (line + 0.5) * (n / m if m else 1.0) - 0.5
        else:
            where = line * ((n - 1) / (m - 1) if m > 1 else 1.0)
        x = _along(x, k, where, order, mode, cval)
    return x


def rotate(
    input: Any,
    angle: Any,
    axes: Any = (1, 0),
    reshape: bool = True,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Tensor:
    """input turned by an angle in degrees in the plane of two axes.

    reshape: the result is large enough for all of input; with reshape=False angle may be a 0-d
    tensor and gets a gradient. The rest is as in map_coordinates. Result: dtype of input. Errors:
    ValueError for other than two axes, or a tensor as angle with reshape. Source:
    scipy.ndimage.rotate.
    """
    x = image(input, "rotate")
    _check("rotate", order, mode)
    plane = sorted(axes_of(axes, x.ndim, "rotate"))
    if len(plane) != 2 or (reshape and isinstance(angle, Tensor)):
        raise ValueError(
            f"rotate(): found axes={axes}, an angle that is {type(angle).__name__} and "
            f"reshape={reshape}; expected two axes, and a number as angle where reshape=True"
        )
    sizes = [int(x.shape[k]) for k in plane]
    c: Any
    s: Any
    if isinstance(angle, Tensor):
        turn = angle.to(dtypes.float64) * (np.pi / 180)
        c, s = turn.cos(), turn.sin()
    else:
        c, s = _cos_sin(float(angle))
    out = _turned_sizes(sizes, c, s) if reshape else sizes
    middle = [(n - 1) / 2 for n in sizes]
    u = (_line(out[0], x) - (out[0] - 1) / 2).reshape(-1, 1)
    v = (_line(out[1], x) - (out[1] - 1) / 2).reshape(1, -1)
    where = [c * u + s * v + middle[0], c * v - s * u + middle[1]]
    moved = x.movedim(tuple(plane), (0, 1))
    rest = tuple(moved.shape[2:])
    flat = moved.reshape(*sizes, prod(rest))
    found = sampled(flat, [w.reshape(-1) for w in where], out[0] * out[1], order, mode, cval)
    turned: Tensor = found.reshape(*out, *rest).movedim((0, 1), tuple(plane))
    return turned


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Exact at multiples of 90 degrees, as scipy.special.cosdg is."""
    quarter = {0.0: (1.0, 0.0), 90.0: (0.0, 1.0), 180.0: (-1.0, 0.0), 270.0: (0.0, -1.0)}
    turn = degrees % 360.0
    return quarter.get(turn) or (cos(radians(turn)), sin(radians(turn)))


def _turned_sizes(sizes: list[int], c: float, s: float) -> list[int]:
    n, m = sizes
    corners = np.array([[c, s], [-s, c]]) @ np.array([[0, 0, n, n], [0, m, 0, m]])
    return [int(extent + 0.5) for extent in np.ptp(corners, axis=1)]


def _check(name: str, order: int, mode: str) -> None:
    if order not in (0, 1):
        raise NotImplementedError(
            f"{name}(): found order={order}, expected 0 (nearest) or 1 (linear); higher splines "
            "have no gradient here"
        )
    if mode not in MODES:
        raise ValueError(f"{name}(): found the mode {mode!r}, expected one of {MODES}")


def _numbers(value: Any) -> Any:
    """A tensor in float64, or other numbers as a NumPy array: these are not sent to a device."""
    return value.to(dtypes.float64) if isinstance(value, Tensor) else np.asarray(value, np.float64)


def _each(values: Any, n: int, name: str, what: str) -> Any:
    """(n,) numbers, from one for all or one each. Errors: RuntimeError for another shape."""
    if values.ndim == 0:
        return values.expand(n) if isinstance(values, Tensor) else np.broadcast_to(values, (n,))
    if tuple(values.shape) != (n,):
        raise RuntimeError(
            f"{name}(): found {what} of shape {tuple(values.shape)}, expected one number or ({n},)"
        )
    return values


def _entry(values: Any, *index: int) -> Any:
    return values[index] if isinstance(values, Tensor) else float(values[index])


def _line(n: int, like: Tensor) -> Tensor:
    made: Tensor = make(backend.call_on(like.device, "arange", n, dtype="f8"))
    return made


def _along(x: Tensor, axis: int, where: Tensor, order: int, mode: str, cval: float) -> Tensor:
    """x sampled along one axis at `where`: (m,)."""
    moved = x.movedim(axis, 0)
    rest = tuple(moved.shape[1:])
    flat = moved.reshape(moved.shape[0], prod(rest))
    count = int(where.shape[0])
    found = sampled(flat, [where], count, order, mode, cval).reshape(count, *rest)
    back: Tensor = found.movedim(0, axis)
    return back
