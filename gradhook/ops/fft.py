"""Discrete Fourier transforms over given axes: complex to complex, real to half a spectrum, and
back. The public forms of them stand in fft_forms.py.

scale: what the sum is divided by: "none", "n" (the number of points) or "root" (its square root).
A transform's transpose goes the other way with the same scale.
"""

from __future__ import annotations

from typing import Any

from gradhook import dtypes
from gradhook.ops.table import op

# the norm that numpy.fft and cupy.fft call so, of a forward transform and of a backward one
_FORWARD = {"none": "backward", "n": "forward", "root": "ortho"}
_BACKWARD = {"none": "forward", "n": "backward", "root": "ortho"}


def _supported(x: Any) -> Any:
    """x, of 32 or 64 bits a real number. Errors: RuntimeError for float16 and bfloat16."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        raise RuntimeError(
            f"Unsupported dtype {dtypes.of(x.dtype).title}: Fourier transforms take float32, "
            "float64, complex64 and complex128; convert with .float()"
        )
    return x


def _complex(x: Any) -> Any:
    return x if x.dtype.kind == "c" else x.astype(dtypes.complex_of(x.dtype))


@op(
    torch=None,
    promote="float",
    linear=True,
    x=lambda xp, g, axes, forward, scale: xp.fft_c2c(
        g, axes=axes, forward=not forward, scale=scale
    ),
)
def fft_c2c(
    xp: Any, x: Any, *, axes: tuple[int, ...], forward: bool = True, scale: str = "none"
) -> Any:
    """The transform over all of `axes`, by exp(-2 pi i jk / n) forward, exp(2 pi i jk / n) else.

    x: any shape, real or complex. Result: shape of x, complex. Errors: RuntimeError for float16.
    """
    x = _complex(_supported(x))
    if not axes or not x.size:
        return x.copy()
    if forward:
        return xp.fft.fftn(x, axes=axes, norm=_FORWARD[scale])
    return xp.fft.ifftn(x, axes=axes, norm=_BACKWARD[scale])


@op(
    torch=None,
    promote="float",
    linear=True,
    x=lambda xp, g, x_shape, axis, scale: xp.fft_c2r(
        xp.fft_weighed(g, axis=axis, n=x_shape[axis], factor=0.5),
        axis=axis,
        n=x_shape[axis],
        scale=scale,
    ),
)
def fft_r2c(xp: Any, x: Any, *, axis: int, scale: str = "none") -> Any:
    """The forward transform of a real x along `axis`, its first n // 2 + 1 of n values.

    Result: axis n // 2 + 1 long, complex; the other values are the conjugates of these.
    Errors: RuntimeError for complex numbers and float16.
    """
    if x.dtype.kind == "c":
        raise RuntimeError(f"rfft expects a real input tensor, but got {dtypes.of(x.dtype).title}")
    _supported(x)
    if not x.size:
        half = (*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :])
        return xp.zeros(half, dtypes.complex_of(x.dtype))
    return xp.fft.rfft(x, axis=axis, norm=_FORWARD[scale])


@op(
    torch=None,
    promote="float",
    linear=True,
    x=lambda xp, g, axis, n, scale: xp.fft_weighed(
        xp.fft_r2c(g, axis=axis, scale=scale), axis=axis, n=n, factor=2
    ),
)
def fft_c2r(xp: Any, x: Any, *, axis: int, n: int, scale: str = "none") -> Any:
    """The backward transform to n real numbers along `axis` from half of a Hermitian spectrum.

    x: axis n // 2 + 1 long; imaginary parts of the first and, for even n, the last value are
    ignored. Result: axis n long, real. Errors: RuntimeError for float16.
    """
    x = _complex(_supported(x))
    if not x.size:
        whole = (*x.shape[:axis], n, *x.shape[axis + 1 :])
        return xp.zeros(whole, f"f{x.dtype.itemsize // 2}")
    return xp.fft.irfft(x, n=n, axis=axis, norm=_BACKWARD[scale])


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, axis, n, factor: xp.fft_weighed(g, axis=axis, n=n, factor=factor),
)
def fft_weighed(xp: Any, x: Any, *, axis: int, n: int, factor: float) -> Any:
    """Half a spectrum of n points with the values that stand for two points times `factor`.

    x: axis n // 2 + 1 long. Result: shape and dtype of x, a copy.
    """
    result = x.copy()
    result[(*(slice(None),) * axis, slice(1, (n + 1) // 2))] *= factor
    return result
