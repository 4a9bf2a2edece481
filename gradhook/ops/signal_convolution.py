"""Convolution and correlation of whole signals, along some axes; the others broadcast.

With t = sum over i and j of z[i + j] x[i] y[j], convolve_full and correlate_valid are its
derivatives by z and by x, and so are their gradients. Short signals directly through scipy.signal
(cupyx.scipy.signal on CuPy), long ones by FFT.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

from gradhook.libraries import scipy
from gradhook.ops.table import op

Array = Any


def fast_length(n: int) -> int:
    """The smallest 2^a 3^b 5^c that is n or more: lengths FFTs are fast at."""
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            need = -(-n // three)
            found = three << max(need - 1, 0).bit_length()
            best = min(best, found)
            three *= 3
        five *= 5
    return best


def by_fft(x_shape: tuple[int, ...], y_shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether an FFT takes fewer operations than the sum itself, by a rough count."""
    x, y = (prod(s[a] for a in axes) for s in (x_shape, y_shape))
    n = prod(x_shape[a] + y_shape[a] - 1 for a in axes)
    return x * y > 20 * n * log2(n + 1)


def _direct(x: Array, y: Array, axes: tuple[int, ...], method: str) -> bool:
    if len(axes) != x.ndim:  # SciPy's sum has no axes
        return False
    if method == "direct" or x.dtype.kind in "biu":
        return True
    return method == "auto" and not by_fft(x.shape, y.shape, axes)


def _through_fft(xp: Any, x: Array, y: Array, axes: tuple[int, ...]) -> Array:
    """The circular convolution over lengths that hold the full one."""
    sizes = [x.shape[a] + y.shape[a] - 1 for a in axes]
    fast = [fast_length(n) for n in sizes]
    kind = x.dtype
    if kind.kind in "biu":
        x, y = x.astype("f8"), y.astype("f8")
    if kind.kind == "c":
        found = xp.fft.ifftn(xp.fft.fftn(x, fast, axes) * xp.fft.fftn(y, fast, axes), fast, axes)
    else:
        found = xp.fft.irfftn(xp.fft.rfftn(x, fast, axes) * xp.fft.rfftn(y, fast, axes), fast, axes)
    return (xp.rint(found) if kind.kind in "biu" else found).astype(kind, copy=False)


def _cut(x: Array, axes: tuple[int, ...], starts: list[int], sizes: list[int]) -> Array:
    parts = [slice(None)] * x.ndim
    for a, start, n in zip(axes, starts, sizes, strict=True):
        parts[a] = slice(start, start + n)
    return x[tuple(parts)]


def _wide(x: Array) -> Array:
    return x.astype("f4") if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


@op(
    torch=None,
    method=False,
    promote="arith",
    x=lambda xp, g, y, axes, method: xp.correlate_valid(g, y, axes=axes, method=method),
    y=lambda xp, g, x, axes, method: xp.correlate_valid(g, x, axes=axes, method=method),
)
def convolve_full(
    xp: Any, x: Array, y: Array, *, axes: tuple[int, ...], method: str = "auto"
) -> Array:
    """out[k] = sum over i + j = k of x[i] y[j] along `axes`; the other axes broadcast.

    x, y: as many dimensions, none of `axes` empty. method: "direct", "fft" or "auto", whichever
    takes fewer operations. Result: length n + m - 1 along axes, the promoted
    dtype. Source: scipy.signal.fftconvolve.
    """
    kind = x.dtype
    x, y = _wide(x), _wide(y)
    if _direct(x, y, axes, method):
        found = scipy(xp, "signal").convolve(x, y, mode="full", method="direct")
    else:
        sizes = [x.shape[a] + y.shape[a] - 1 for a in axes]
        found = _cut(_through_fft(xp, x, y, axes), axes, [0] * len(axes), sizes)
    return xp.ascontiguousarray(found.astype(kind, copy=False))


@op(
    torch=None,
    method=False,
    promote="arith",
    z=lambda xp, g, y, axes, method: xp.convolve_full(g, y, axes=axes, method=method),
    y=lambda xp, g, z, axes, method: xp.correlate_valid(z, g, axes=axes, method=method),
)
def correlate_valid(
    xp: Any, z: Array, y: Array, *, axes: tuple[int, ...], method: str = "auto"
) -> Array:
    """out[i] = sum over j of z[i + j] y[j] along `axes`, where all of y fits; nothing conjugated.

    z: as long as y or longer along axes. The rest is as in convolve_full. Result: length
    n - m + 1 along axes. Source: scipy.signal.correlate.
    """
    kind = z.dtype
    z, y = _wide(z), _wide(y)
    flipped = xp.flip(y, axis=axes)
    if _direct(z, y, axes, method):
        found = scipy(xp, "signal").convolve(z, flipped, mode="valid", method="direct")
    else:
        starts = [y.shape[a] - 1 for a in axes]
        sizes = [z.shape[a] - y.shape[a] + 1 for a in axes]
        found = _cut(_through_fft(xp, z, flipped, axes), axes, starts, sizes)
    return xp.ascontiguousarray(found.astype(kind, copy=False))
