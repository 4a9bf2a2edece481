"""Short-time Fourier transforms, their inverse, and the window functions they are used with."""

from __future__ import annotations

import warnings
from typing import Any

from gradhook import backend, creation, dtypes
from gradhook.hooks.notices import caller_depth
from gradhook.ops.axes import wrap
from gradhook.overloads.recorded import ops, tensor_of
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
WINDOWS = tuple(f"{n}_window" for n in ("hann", "hamming", "blackman", "bartlett", "kaiser"))
FUNCTIONS = ("stft", "istft", *WINDOWS)
METHODS = ("stft", "istft")
PROPERTIES: tuple[str, ...] = ()

LEAST_OVERLAP = 1e-11


def _padded(x: Tensor, amount: int, mode: str) -> Tensor:
    """x with `amount` elements before and after the last dimension. Errors: RuntimeError."""
    n = x.shape[-1]
    if mode == "constant":
        return ops.pad_constant(x, pad=(amount, amount))
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"Unrecognised padding mode {mode}; expected constant, reflect, replicate or circular"
        )
    if (mode == "reflect" and amount >= n) or amount > n:
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: padding "
            f"({amount}, {amount}) at the last dimension of {n} elements"
        )
    xp = backend.array_module(x._a)
    with backend.place(x._a):
        at = xp.arange(-amount, n + amount)
        if mode == "reflect":
            at = n - 1 - xp.abs(n - 1 - xp.abs(at))
        at = at % n if mode == "circular" else xp.clip(at, 0, n - 1)
    return ops.index_select(x, tensor_of(at), axis=-1)


def _window(name: str, window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window (ones without) in the middle of n_fft zeros. Errors: RuntimeError."""
    if window is None:
        kind = like._a.real.dtype
        made = creation.ones(length, dtype=kind, device=like.device)
    elif window.ndim != 1 or window.shape[0] != length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window.shape)}"
        )
    else:
        made = window
    left = (n_fft - length) // 2
    if length == n_fft:
        return made
    return ops.pad_constant(made, pad=(left, n_fft - length - left))


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of windows of n_fft samples every hop_length (n_fft // 4) samples.

    input: (samples,) or (batch, samples), real or complex. window: (win_length,), ones without, put
    in the middle of n_fft. center: pad input by n_fft // 2 (pad_mode), so that frame t lies around
    sample t * hop_length. normalized: divide by sqrt(n_fft). onesided: n_fft // 2 + 1 frequencies
    (of real numbers, the default). align_to_window: without center, frames as long as the window.
    return_complex: must be given for real input; False gives a last dimension of 2.
    Result: (batch, frequencies, frames), complex. Errors: RuntimeError. Source: torch.stft.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if return_complex is None:
        if not input.is_complex() and (window is None or not window.is_complex()):
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs: True for a "
                "complex result, False for real and imaginary parts in a last dimension"
            )
        return_complex = True
    _check_stft(input, n_fft, hop, length, center, align_to_window)
    whole = input.is_complex() or (window is not None and window.is_complex())
    if onesided and whole:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    half = not whole if onesided is None else onesided
    x = input if input.ndim == 2 else ops.reshape(input, shape=(1, -1))
    x = _padded(x, n_fft // 2, pad_mode) if center else x
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {x.shape[-1]}, but got n_fft={n_fft}")
    w = _window("stft", window, length, n_fft, input)
    if align_to_window:  # only what lies under the window has to be there
        left = (n_fft - length) // 2
        x = ops.pad_constant(x, pad=(left, n_fft - length - left))
    frames = ops.multiply(ops.windows(x, size=n_fft, step=hop, axis=1), w)
    norm = "ortho" if normalized else None
    found = ops.rfft(frames, norm=norm) if half else ops.fft(frames, norm=norm)
    found = ops.transpose(found, dim0=1, dim1=2)
    found = found if input.ndim == 2 else ops.squeeze(found, axis=0)
    return found if return_complex else ops.view_as_real(ops.clone(found))


def _check_stft(
    input: Tensor, n_fft: int, hop: int, length: int, center: bool, align: bool | None
) -> None:
    if input._a.dtype.kind not in "fc":
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, found {input.dtype}"
        )
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, found {input.ndim} dimensions")
    if center and align is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(
            f"stft: expected 0 < win_length <= n_fft, but got win_length={length}, n_fft={n_fft}"
        )


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Inverse of stft with the same parameters: overlapped frames over the overlapped windows.

    input: (frequencies, frames) or (batch, frequencies, frames), complex. length: number of samples
    of the result, cut or padded with zeros. return_complex: the signal was complex.
    onesided: by the number of frequencies when None.
    Result: (samples,) or (batch, samples). Errors: RuntimeError; that the windows leave no gap is
    looked at on the CPU only. Source: torch.istft.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    half = onesided
    if half is None:
        half = input.ndim < 2 or input.shape[-2] != n_fft
    _check_istft(input, n_fft, hop, size, half, length)
    if half and (return_complex or (window is not None and window.is_complex())):
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    spectra = input if input.ndim == 3 else ops.expand_dims(input, axis=0)
    spectra = ops.transpose(spectra, dim0=1, dim1=2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ops.ifft(spectra, norm=norm)
    elif half:
        frames = ops.irfft(spectra, n=n_fft, norm=norm)
    else:
        first = ops.slice_view(spectra, index=(Ellipsis, slice(0, n_fft // 2 + 1)))
        frames = ops.irfft(first, n=n_fft, norm=norm)
    w = _window("istft", window, size, n_fft, input)
    found = _overlapped(frames, w, hop, n_fft // 2 if center else 0, length)
    return found if input.ndim == 3 else ops.squeeze(found, axis=0)


def _overlapped(frames: Tensor, w: Tensor, hop: int, start: int, length: int | None) -> Tensor:
    """The frames times the window added up, over the window's squares added up."""
    batch, count, n_fft = frames.shape
    samples = n_fft + hop * (count - 1)
    end = samples - start if length is None else start + length
    total = ops.fold_windows(
        ops.multiply(frames, w), shape=(batch, samples), size=n_fft, step=hop, axis=1
    )
    squares = ops.expand(ops.multiply(w, w), size=(1, count, n_fft))
    envelope = ops.fold_windows(squares, shape=(1, samples), size=n_fft, step=hop, axis=1)
    inside = (slice(None), slice(start, min(end, samples)))
    total = ops.slice_view(total, index=inside)
    envelope = ops.slice_view(envelope, index=inside)
    if envelope.device is backend.CPU and not bool((abs(envelope._a) > LEAST_OVERLAP).all()):
        raise RuntimeError(
            "istft: the overlapped windows are 0 at some sample (window overlap add min: "
            f"{abs(envelope._a).min() if envelope.numel() else 0:.3g}); take a smaller hop_length "
            "or another window"
        )
    found = ops.divide(total, envelope)
    if end > samples:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=caller_depth(),
        )
        found = ops.pad_constant(found, pad=(0, end - samples))
    return found


def _check_istft(
    input: Tensor, n_fft: int, hop: int, size: int, half: bool, length: int | None
) -> None:
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if not input.numel():
        raise RuntimeError("istft: input tensor cannot be empty.")
    if input.ndim not in (2, 3):
        wrap(-3, input.ndim)
        raise RuntimeError(f"istft: expected a 2D or 3D tensor, found {input.ndim} dimensions")
    wanted = n_fft // 2 + 1 if half else n_fft
    if input.shape[-2] != wanted:
        words = "n_fft / 2 + 1 when onesided=True" if half else "n_fft when onesided=False"
        raise RuntimeError(
            "istft: expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {words}, {wanted}, but got {input.shape[-2]}"
        )
    if length is not None and length < 0:
        raise RuntimeError(f"istft: expected length >= 0, found {length}")
    if not 0 < hop <= size:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, found {hop} and {size}")
    if not 0 < size <= n_fft:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, found {size} and {n_fft}")


def _turns(name: str, n: int, periodic: bool, options: dict[str, Any]) -> Tensor:
    """0, ... n - 1 over the period, in float64. Errors: RuntimeError."""
    kind = dtypes.raw(options.get("dtype")) or dtypes.get_default_dtype().np
    if kind.kind != "f":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {options['dtype']}")
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    places = creation.arange(0, n, dtype=dtypes.float64, device=options.get("device"))
    return ops.multiply(places, 1 / max(n if periodic else n - 1, 1))


def _finished(found: Tensor, options: dict[str, Any]) -> Tensor:
    dtype = dtypes.raw(options.get("dtype")) or dtypes.get_default_dtype().np
    if found.numel() == 1:
        found = ops.ones_like(found)
    found = ops.cast(found, dtype=dtype)
    return found.requires_grad_() if options.get("requires_grad") else found


def _cosines(turns: Tensor, *factors: float) -> Tensor:
    """factors[0] - factors[1] cos(2 pi t) + factors[2] cos(4 pi t)."""
    total = ops.add(ops.multiply(turns, 0), factors[0])
    for k, factor in enumerate(factors[1:], 1):
        wave = ops.cos(ops.multiply(turns, 6.283185307179586 * k))
        total = ops.add(total, ops.multiply(wave, factor * (-1) ** k))
    return total


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Hann window. periodic: of window_length + 1 symmetric points without the last.

    options: dtype, device, requires_grad. Result: (window_length,). Errors: RuntimeError.
    """
    turns = _turns("hann_window", window_length, periodic, options)
    return _finished(_cosines(turns, 0.5, 0.5), options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **options: Any,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi t). Parameters, result and errors as hann_window.

    Result: (window_length,), floating.
    """
    turns = _turns("hamming_window", window_length, periodic, options)
    return _finished(_cosines(turns, alpha, beta), options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Blackman window. Parameters, result and errors as hann_window.

    Result: (window_length,), floating.
    """
    turns = _turns("blackman_window", window_length, periodic, options)
    return _finished(ops.absolute(_cosines(turns, 0.42, 0.5, 0.08)), options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """The triangle from 0 to 1 and back. Parameters, result and errors as hann_window.

    Result: (window_length,), floating.
    """
    turns = _turns("bartlett_window", window_length, periodic, options)
    sides = ops.absolute(ops.subtract(ops.multiply(turns, 2), 1))
    return _finished(ops.subtract(1, sides), options)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any
) -> Tensor:
    """Kaiser window of shape beta. Parameters, result and errors as hann_window.

    Result: (window_length,), floating.
    """
    turns = _turns("kaiser_window", window_length, periodic, options)
    place = ops.subtract(ops.multiply(turns, 2), 1)
    inside = ops.clip_low(ops.subtract(1, ops.multiply(place, place)), 0)
    height = ops.i0(ops.multiply(ops.sqrt(inside), beta))
    top = ops.i0(ops.add(ops.multiply(turns, 0), beta))
    return _finished(ops.divide(height, top), options)
