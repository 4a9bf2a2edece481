"""Correlation and convolution with weights, and moving averages."""

from __future__ import annotations

from typing import Any

from gradhook.autograd.record import ops
from gradhook.ndimage.arguments import axes_of, constants, each, image, mode_of
from gradhook.tensor import Tensor


def correlate(
    input: Any,
    weights: Any,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """input correlated with weights: out[i] = sum_k conj(weights[k]) input[i + k - K//2 - origin].

    input: any shape. weights: as many dimensions, or as `axes` has; both get gradients. mode: how
    input goes on beyond its ends: reflect, constant (cval), nearest, mirror, wrap. origin: an int,
    or one an axis. Result: shape of input, the promoted dtype.
    Errors: RuntimeError for weights of other dimensions or empty, ValueError for mode, axes or an
    origin outside the weights. Source: scipy.ndimage.correlate.
    """
    return _filtered("correlate", input, weights, mode, cval, origin, axes, False)


def convolve(
    input: Any,
    weights: Any,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """input convolved with weights: out[i] = sum_k weights[k] input[i - k + K // 2 + origin].

    Arguments, result and errors are those of `correlate`. Source: scipy.ndimage.convolve.
    """
    return _filtered("convolve", input, weights, mode, cval, origin, axes, True)


def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """`correlate` along one axis. weights: one dimension, or a list of numbers. Source:
    scipy.ndimage.correlate1d.
    """
    return _along("correlate1d", input, weights, axis, mode, cval, origin, False)


def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """`convolve` along one axis. weights: one dimension, or a list of numbers. Source:
    scipy.ndimage.convolve1d.
    """
    return _along("convolve1d", input, weights, axis, mode, cval, origin, True)


def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """The mean of `size` elements along an axis. Result: as input. Source:
    scipy.ndimage.uniform_filter1d.
    """
    if size < 1:
        raise RuntimeError(f"uniform_filter1d(): found the size {size}, expected 1 or more")
    x = image(input, "uniform_filter1d")
    return correlate1d(x, constants([1.0 / size] * size, x), axis, mode, cval, origin)


def uniform_filter(
    input: Any,
    size: Any = 3,
    mode: Any = "reflect",
    cval: float = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """The mean over a box. size, mode, origin: one for all axes, or one each. Result: as input.
    Source: scipy.ndimage.uniform_filter.
    """
    x = image(input, "uniform_filter")
    where = axes_of(axes, x.ndim, "uniform_filter")
    options = [each(v, len(where), "uniform_filter", w)
               for v, w in ((size, "size"), (mode, "mode"), (origin, "origin"))]  # fmt: skip
    for axis, n, m, o in zip(where, *options, strict=True):
        if n > 1:
            x = uniform_filter1d(x, int(n), axis, m, cval, o)
    return x


def _along(
    name: str, input: Any, weights: Any, axis: int, mode: str, cval: float, origin: int, flip: bool
) -> Tensor:
    x = image(input, name)
    w = constants(weights, x) if isinstance(weights, list | tuple) else image(weights, name)
    if w.ndim != 1:
        raise RuntimeError(f"{name}(): found weights of {w.ndim} dimensions, expected 1")
    return _filtered(name, x, w, mode, cval, origin, axis, flip)


def _filtered(
    name: str, input: Any, weights: Any, mode: str, cval: float, origin: Any, axes: Any, flip: bool
) -> Tensor:
    x, w = image(input, name), image(weights, name)
    where, plain = axes_of(axes, x.ndim, name), mode_of(mode, name)
    origins = [int(o) for o in each(origin, len(where), name, "origin")]
    if w.ndim != len(where) or not all(w.shape):
        raise RuntimeError(
            f"{name}(): found weights of shape {tuple(w.shape)}, expected {len(where)} dimensions "
            f"without an empty one, for input of shape {tuple(x.shape)}"
        )
    order = sorted(range(len(where)), key=where.__getitem__)
    origins = [origins[k] for k in order]  # the weights stand in the order of input's axes
    if flip:
        origins = [-o - (1 - n % 2) for o, n in zip(origins, w.shape, strict=True)]
        w = w.flip(tuple(range(w.ndim))) if w.ndim else w
    else:
        w = w.conj()
    for o, n in zip(origins, w.shape, strict=True):
        if not 0 <= n // 2 + o < n:
            raise ValueError(
                f"{name}(): found origin={origin} with weights of shape {tuple(weights.shape)}, "
                "expected one that leaves the center inside the weights"
            )
    sizes, shifts = [1] * x.ndim, [0] * x.ndim
    for k, axis in enumerate(sorted(where)):
        sizes[axis], shifts[axis] = int(w.shape[k]), origins[k]
    w = w.reshape(sizes)
    options = {"mode": plain, "origin": tuple(shifts)}
    if plain == "constant" and cval != 0:
        shifted: Tensor = ops.filter_correlate(x - cval, w, **options) + cval * w.sum()
        return shifted
    found: Tensor = ops.filter_correlate(x, w, **options)
    return found
