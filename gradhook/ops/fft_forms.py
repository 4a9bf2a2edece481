"""The public Fourier transforms (`gradhook.fft`): one, two and n dimensions, lengths, norms.

n, s: lengths to which the transformed dimensions are cut or padded with zeros first; s may have -1
for "as it is". norm: "backward" (1 / n on inverse transforms, the default), "forward" (1 / n on
forward ones) or "ortho" (1 / sqrt(n) on both). float32 gives complex64, integers count as the
default dtype. Source: torch.fft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradhook.ops.axes import wrap
from gradhook.ops.table import composite

_INVERSE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_SCALES = {"backward": "none", "forward": "n", "ortho": "root"}


def _scale(norm: str | None, forward: bool) -> str:
    name = "backward" if norm is None else norm
    if name not in _SCALES:
        raise RuntimeError(
            f'Invalid normalization mode: "{name}"; expected "backward", "forward" or "ortho"'
        )
    return _SCALES[name if forward else _INVERSE[name]]


def _points(n: int) -> int:
    if type(n) is not int and not hasattr(n, "__index__"):
        raise TypeError(f"the length of a transform must be int, not {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return int(n)


def _one(x: Any, axis: int) -> int:
    """The axis, non-negative. Errors: IndexError for a wrong one, or when x has none."""
    if not len(x.shape):
        raise IndexError(f"Dimension specified as {axis} but tensor has no dimensions")
    return wrap(axis, len(x.shape))


def _several(x: Any, s: Any, axis: Any) -> tuple[list[int], list[int]]:
    """Axes and lengths of an n-dimensional transform; the length -1 means as it is.

    Errors: IndexError for a wrong axis, RuntimeError for repeated ones and lengths that do not fit.
    """
    ndim = len(x.shape)
    s = None if s is None else [s] if isinstance(s, int) else list(s)
    if axis is not None:
        axes = [wrap(int(a), ndim) for a in ([axis] if isinstance(axis, int) else axis)]
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(axes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif s is None:
        axes = list(range(ndim))
    else:
        if len(s) > ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions."
            )
        axes = list(range(ndim - len(s), ndim))
    return axes, [-1] * len(axes) if s is None else s


def _as_it_is(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The lengths with -1 replaced. Errors: RuntimeError for 0 and other negative ones."""
    return [_points(x.shape[a] if n == -1 else n) for a, n in zip(axes, sizes, strict=True)]


def _resized(xp: Any, x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """x cut, or padded with zeros at the end, to lengths along axes."""
    pad = [0] * (2 * len(x.shape))
    for a, n in zip(axes, sizes, strict=True):
        pad[2 * (len(x.shape) - 1 - a) + 1] = n - x.shape[a]
    return xp.pad_constant(x, pad=tuple(pad)) if any(pad) else x


def _refuse_complex(x: Any, text: str) -> None:
    if "complex" in str(x.dtype):
        title = "ComplexFloat" if "64" in str(x.dtype) else "ComplexDouble"
        raise RuntimeError(f"{text} {title}")


def _c2c(xp: Any, x: Any, s: Any, axis: Any, norm: str | None, forward: bool) -> Any:
    axes, sizes = _several(x, s, axis)
    scale = _scale(norm, forward)
    x = _resized(xp, x, axes, _as_it_is(x, axes, sizes))
    return xp.fft_c2c(x, axes=tuple(axes), forward=forward, scale=scale)


def _r2c(xp: Any, name: str, x: Any, s: Any, axis: Any, norm: str | None) -> Any:
    """Half a spectrum in the last axis, then the whole ones; the inverse of them for ihfft."""
    forward = name == "rfftn"
    axes, sizes = _several(x, s, axis)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    scale = _scale(norm, forward)
    x = _resized(xp, x, axes, _as_it_is(x, axes, sizes))
    half = xp.fft_r2c(x, axis=axes[-1], scale=scale)
    half = half if forward else xp.conj(half)
    if len(axes) == 1:
        return half
    return xp.fft_c2c(half, axes=tuple(axes[:-1]), forward=forward, scale=scale)


def _c2r(xp: Any, name: str, x: Any, s: Any, axis: Any, norm: str | None) -> Any:
    """The whole axes, then the last one from half its spectrum to real numbers."""
    forward = name == "hfftn"
    axes, sizes = _several(x, s, axis)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    scale = _scale(norm, forward)
    lengths = _as_it_is(x, axes, sizes)
    last = _points(2 * (x.shape[axes[-1]] - 1) if sizes[-1] == -1 else lengths[-1])
    x = _resized(xp, x, axes, [*lengths[:-1], last // 2 + 1])
    if len(axes) > 1:
        x = xp.fft_c2c(x, axes=tuple(axes[:-1]), forward=forward, scale=scale)
    return xp.fft_c2r(xp.conj(x) if forward else x, axis=axes[-1], n=last, scale=scale)


def _length(n: int | None) -> tuple[int, ...] | None:
    """The `s` of one dimension; -1 is no length there."""
    return None if n is None else (_points(n),)


@composite(torch="fft.fft(input, n=None, dim=-1, norm=None)", method=False)
def fft(xp: Any, x: Any, *, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Discrete Fourier transform along one dimension.

    x: real or complex. Result: dim n long, complex.
    Errors: IndexError for dim, RuntimeError for n below 1, another norm, float16.
    """
    return _c2c(xp, x, _length(n), _one(x, axis), norm, True)


@composite(torch="fft.ifft(input, n=None, dim=-1, norm=None)", method=False)
def ifft(xp: Any, x: Any, *, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of fft along one dimension. x: real or complex. Result: dim n long, complex."""
    return _c2c(xp, x, _length(n), _one(x, axis), norm, False)


@composite(torch="fft.rfft(input, n=None, dim=-1, norm=None)", method=False)
def rfft(xp: Any, x: Any, *, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """fft of real numbers, without the second, conjugate half.

    x: real. Result: dim n // 2 + 1 long, complex. Errors: as fft; RuntimeError for complex x.
    """
    _refuse_complex(x, "rfft expects a real input tensor, but got")
    return _r2c(xp, "rfftn", x, _length(n), _one(x, axis), norm)


@composite(torch="fft.irfft(input, n=None, dim=-1, norm=None)", method=False)
def irfft(xp: Any, x: Any, *, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of rfft. x: half a spectrum. Result: dim n (2 (dim - 1) without) long, real."""
    return _c2r(xp, "irfftn", x, _length(n), _one(x, axis), norm)


@composite(torch="fft.hfft(input, n=None, dim=-1, norm=None)", method=False)
def hfft(xp: Any, x: Any, *, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """fft of a signal that is Hermitian in time, given by its first half.

    x: real or complex. Result: dim n (2 (dim - 1) without) long, real.
    """
    return _c2r(xp, "hfftn", x, _length(n), _one(x, axis), norm)


@composite(torch="fft.ihfft(input, n=None, dim=-1, norm=None)", method=False)
def ihfft(xp: Any, x: Any, *, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of hfft. x: real. Result: dim n // 2 + 1 long, complex."""
    _refuse_complex(x, "ihfft expects a real input tensor, but got")
    return _r2c(xp, "ihfftn", x, _length(n), _one(x, axis), norm)


@composite(torch="fft.fft2(input, s=None, dim=(-2, -1), norm=None)", method=False)
def fft2(xp: Any, x: Any, *, s: Any = None, axis: Any = (-2, -1), norm: str | None = None) -> Any:
    """fft over two dimensions. x: real or complex. Result: dims s long, complex."""
    return _c2c(xp, x, s, axis, norm, True)


@composite(torch="fft.ifft2(input, s=None, dim=(-2, -1), norm=None)", method=False)
def ifft2(xp: Any, x: Any, *, s: Any = None, axis: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse of fft2. x: real or complex. Result: shape of x, dims s long, complex."""
    return _c2c(xp, x, s, axis, norm, False)


@composite(torch="fft.rfft2(input, s=None, dim=(-2, -1), norm=None)", method=False)
def rfft2(xp: Any, x: Any, *, s: Any = None, axis: Any = (-2, -1), norm: str | None = None) -> Any:
    """fft2 of real numbers; of the last dimension the first half. x: real. Result: complex."""
    _refuse_complex(x, "rfftn expects a real-valued input tensor, but got")
    return _r2c(xp, "rfftn", x, s, axis, norm)


@composite(torch="fft.irfft2(input, s=None, dim=(-2, -1), norm=None)", method=False)
def irfft2(xp: Any, x: Any, *, s: Any = None, axis: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse of rfft2. x: half a spectrum in the last dim. Result: dims s long, real."""
    return _c2r(xp, "irfftn", x, s, axis, norm)


@composite(torch="fft.hfft2(input, s=None, dim=(-2, -1), norm=None)", method=False)
def hfft2(xp: Any, x: Any, *, s: Any = None, axis: Any = (-2, -1), norm: str | None = None) -> Any:
    """fft2 of a Hermitian signal, given by half its last dim. Result: dims s long, real."""
    return _c2r(xp, "hfftn", x, s, axis, norm)


@composite(torch="fft.ihfft2(input, s=None, dim=(-2, -1), norm=None)", method=False)
def ihfft2(xp: Any, x: Any, *, s: Any = None, axis: Any = (-2, -1), norm: str | None = None) -> Any:
    """Inverse of hfft2. x: real. Result: the last dim s // 2 + 1 long, complex."""
    _refuse_complex(x, "Only supports floating-point dtypes, but found:")
    return _r2c(xp, "ihfftn", x, s, axis, norm)


@composite(torch="fft.fftn(input, s=None, dim=None, norm=None)", method=False)
def fftn(xp: Any, x: Any, *, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
    """fft over several dimensions: dim, or the last len(s), or all.

    x: real or complex. Result: dims s long, complex. Errors: RuntimeError for repeated dims and s
    that does not fit them; as fft.
    """
    return _c2c(xp, x, s, axis, norm, True)


@composite(torch="fft.ifftn(input, s=None, dim=None, norm=None)", method=False)
def ifftn(xp: Any, x: Any, *, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
    """Inverse of fftn. x: real or complex. Result: shape of x, dims s long, complex."""
    return _c2c(xp, x, s, axis, norm, False)


@composite(torch="fft.rfftn(input, s=None, dim=None, norm=None)", method=False)
def rfftn(xp: Any, x: Any, *, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
    """fftn of real numbers; of the last dimension the first half. x: real. Result: complex."""
    _refuse_complex(x, "rfftn expects a real-valued input tensor, but got")
    return _r2c(xp, "rfftn", x, s, axis, norm)


@composite(torch="fft.irfftn(input, s=None, dim=None, norm=None)", method=False)
def irfftn(xp: Any, x: Any, *, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
    """Inverse of rfftn. x: half a spectrum in the last dim. Result: dims s long, real."""
    return _c2r(xp, "irfftn", x, s, axis, norm)


@composite(torch="fft.hfftn(input, s=None, dim=None, norm=None)", method=False)
def hfftn(xp: Any, x: Any, *, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
    """fftn of a Hermitian signal, given by half its last dim. Result: dims s long, real."""
    return _c2r(xp, "hfftn", x, s, axis, norm)


@composite(torch="fft.ihfftn(input, s=None, dim=None, norm=None)", method=False)
def ihfftn(xp: Any, x: Any, *, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
    """Inverse of hfftn. x: real. Result: the last dim s // 2 + 1 long, complex."""
    _refuse_complex(x, "Only supports floating-point dtypes, but found:")
    return _r2c(xp, "ihfftn", x, s, axis, norm)


def _shifted(xp: Any, x: Any, axis: Any, round_up: int) -> Any:
    axes = range(len(x.shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    shifts = tuple((x.shape[wrap(a, len(x.shape))] + round_up) // 2 for a in axes)
    return xp.roll(x, shifts=shifts, dims=tuple(axes))


@composite(torch="fft.fftshift(input, dim=None)", method=False)
def fftshift(xp: Any, x: Any, *, axis: Any = None) -> Any:
    """Frequency 0 moved from the start of dimensions (all without dim) to the middle.

    Result: shape and dtype of x, a copy.
    """
    return _shifted(xp, x, axis, 0)


@composite(torch="fft.ifftshift(input, dim=None)", method=False)
def ifftshift(xp: Any, x: Any, *, axis: Any = None) -> Any:
    """Inverse of fftshift. Result: shape and dtype of x, a copy."""
    return _shifted(xp, x, axis, 1)
