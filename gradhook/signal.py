"""Convolution and correlation of signals, with gradients for both sides: SciPy's names, short ones
through scipy.signal (cupyx.scipy.signal on CUDA, extra `scipy`), long ones by FFT.

Windows have PyTorch's names: gradhook.hann_window, ... Source: scipy.signal.
"""

from __future__ import annotations

from typing import Any

from gradhook import backend, dtypes
from gradhook.autograd.binding import make
from gradhook.autograd.operands import tensor_of
from gradhook.autograd.record import ops
from gradhook.ndimage.arguments import axes_of, constants
from gradhook.tensor import Tensor

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "hilbert"]


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """out[k] = sum over i + j = k of in1[i] in2[j], along all dimensions.

    in1, in2: as many dimensions, not empty; both get gradients. mode: "full" (length n + m - 1),
    "same" (its center, shape of in1) or "valid" (where one fits into the other). method: "direct",
    "fft", or "auto" for whichever takes fewer operations. Result: the promoted dtype.
    Errors: ValueError for dimensions that differ, an empty input, another mode or method, or where
    neither fits into the other. Source: scipy.signal.convolve.
    """
    x, y = _pair("convolve", in1, in2)
    return _convolved("convolve", x, y, mode, tuple(range(x.ndim)), method)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """in1 convolved with in2 turned round and conjugated: out[k] = sum_i in1[i + k] conj(in2[i]),
    from lag 1 - m on.

    Arguments, result and errors are those of `convolve`. Source: scipy.signal.correlate.
    """
    x, y = _pair("correlate", in1, in2)
    axes = tuple(range(x.ndim))
    turned = y.conj().flip(axes) if axes else y.conj()
    return _convolved("correlate", x, turned, mode, axes, method)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Tensor:
    """`convolve` by FFT, along all dimensions or `axes`; the other ones broadcast.

    Source: scipy.signal.fftconvolve.
    """
    x, y = _pair("fftconvolve", in1, in2)
    where = axes_of(axes, x.ndim, "fftconvolve")
    for k in range(x.ndim):
        if k not in where and x.shape[k] != y.shape[k] and 1 not in (x.shape[k], y.shape[k]):
            raise ValueError(
                f"fftconvolve(): found shapes {tuple(x.shape)} and {tuple(y.shape)}, expected "
                f"equal lengths, or 1, along dimension {k}, which is not in axes={where}"
            )
    return _convolved("fftconvolve", x, y, mode, where, "fft")


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Tensor:
    """`convolve` of two images; boundary says how in1 goes on beyond its ends: "fill" (with
    fillvalue), "wrap" or "symm" (d c b a | a b c d | d c b a).

    Errors: ValueError for other than two dimensions or another boundary. Source:
    scipy.signal.convolve2d.
    """
    x, y = _pair("convolve2d", in1, in2)
    return _convolved2d("convolve2d", x, y, mode, boundary, fillvalue, 1)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Tensor:
    """`correlate` of two images; the rest is as in `convolve2d`. Source:
    scipy.signal.correlate2d.
    """
    x, y = _pair("correlate2d", in1, in2)
    turned = y.conj().flip((0, 1))
    return _convolved2d("correlate2d", x, turned, mode, boundary, fillvalue, 0)


def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Tensor:
    """The analytic signal: x plus i times its Hilbert transform, along an axis.

    x: real. N: the FFT's length, that of x by default. Result: complex, length N along axis.
    Errors: ValueError for a complex x or N < 1. Source: scipy.signal.hilbert.
    """
    t = tensor_of(x, "hilbert()")
    if t._a.dtype.kind == "c":
        raise ValueError("hilbert(): found a complex x, expected a real one")
    (k,) = axes_of(axis, t.ndim, "hilbert")
    n = int(t.shape[k]) if N is None else int(N)
    if n < 1:
        raise ValueError(f"hilbert(): found N={n}, expected 1 or more")
    t = t if t._a.dtype.kind == "f" else t.to(dtypes.get_default_dtype())
    weights = [1.0 if i in (0, n / 2) else 2.0 * (i < n / 2) for i in range(n)]
    shares = constants(weights, t).reshape((-1,) + (1,) * (t.ndim - 1 - k))
    found: Tensor = ops.ifft(ops.fft(t, n=n, axis=k) * shares, n=n, axis=k)
    return found


def _pair(name: str, in1: Any, in2: Any) -> tuple[Tensor, Tensor]:
    x, y = tensor_of(in1, f"{name}()"), tensor_of(in2, f"{name}()")
    if x.ndim != y.ndim or not x.numel() or not y.numel():
        raise ValueError(
            f"{name}(): found shapes {tuple(x.shape)} and {tuple(y.shape)}, expected as many "
            "dimensions in both, and none empty"
        )
    return x, y


def _convolved(
    name: str, x: Tensor, y: Tensor, mode: str, axes: tuple[int, ...], method: str, early: int = 1
) -> Tensor:
    """early: the center of "same" starts (m - early) // 2 from the full result's start."""
    if mode not in ("full", "same", "valid") or method not in ("auto", "direct", "fft"):
        raise ValueError(
            f"{name}(): found mode={mode!r}, method={method!r}; expected full, same or valid, and "
            "auto, direct or fft"
        )
    if not axes:
        found: Tensor = x * y
        return found
    options = {"axes": axes, "method": method}
    longer = [x.shape[a] >= y.shape[a] for a in axes]
    if mode == "valid":
        if not all(longer):
            if any(x.shape[a] > y.shape[a] for a in axes):
                raise ValueError(
                    f"{name}(): found shapes {tuple(x.shape)} and {tuple(y.shape)} with "
                    "mode='valid', expected one that is at least as long in every dimension"
                )
            x, y = y, x
        found = ops.correlate_valid(x, y.flip(axes), **options)
        return found
    found = ops.convolve_full(x, y, **options)
    if mode == "same":
        for a in axes:
            start = (int(y.shape[a]) - early) // 2
            found = found.narrow(a, start, int(x.shape[a]))
    return found


def _convolved2d(
    name: str, x: Tensor, y: Tensor, mode: str, boundary: str, fillvalue: float, early: int
) -> Tensor:
    if x.ndim != 2 or boundary not in ("fill", "wrap", "symm"):
        raise ValueError(
            f"{name}(): found {x.ndim} dimensions and boundary={boundary!r}, expected 2, and fill, "
            "wrap or symm"
        )
    if mode == "valid" or (boundary == "fill" and fillvalue == 0):
        return _convolved(name, x, y, mode, (0, 1), "auto", early)
    if boundary == "fill":
        whole = _convolved(name, x - fillvalue, y, mode, (0, 1), "auto", early)
        return whole + fillvalue * y.sum()
    for k in (0, 1):
        n, m = int(x.shape[k]), int(y.shape[k])
        j = make(backend.call_on(x.device, "arange", 1 - m, n + m - 1))
        r = j % (n if boundary == "wrap" else 2 * n)
        x = x.index_select(k, r.where(r < n, 2 * n - 1 - r))
    found = ops.correlate_valid(x, y.flip((0, 1)), axes=(0, 1), method="auto")
    if mode == "same":
        for k in (0, 1):
            m = int(y.shape[k])
            found = found.narrow(k, (m - early) // 2, int(x.shape[k]) - 2 * (m - 1))
    result: Tensor = found
    return result
