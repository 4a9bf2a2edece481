"""Convolutions: arguments checked as PyTorch does, then the table's convolution over any number of
axes.
"""

from __future__ import annotations

from typing import Any

from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def per_axis(value: Any, n: int, name: str) -> tuple[int, ...]:
    """One int an axis.

    Errors: RuntimeError names the argument and how many entries it should have.
    """
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(entries) == 1:
        entries *= n
    if len(entries) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values, but got {value}"
        )
    return tuple(int(e) for e in entries)


def same_padding(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(before, after) of each axis so that the output is as long as the input; the odd element goes
    after.
    """
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple((t // 2, t - t // 2) for t in totals)


def _padding(padding: Any, n: int, kernel: Any, stride: Any, dilation: Any) -> tuple[Any, ...]:
    if not isinstance(padding, str):
        pads = per_axis(padding, n, "padding")
        if min(pads) < 0:
            raise RuntimeError("negative padding is not supported")
        return pads
    if padding == "valid":
        return (0,) * n
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'; expected 'same' or 'valid'")
    if max(stride) > 1:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    return same_padding(kernel, dilation)


def _batched(input: Tensor, n: int, name: str) -> tuple[Tensor, bool]:
    ndim = input._a.ndim
    if ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input._a.shape)}"
        )
    return (input, True) if ndim == n + 2 else (xp.expand_dims(input, axis=0), False)


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and other._a.dtype != input._a.dtype:
            raise RuntimeError(
                f"Input type ({input.dtype.name}) and {what} type ({other.dtype.name}) should be "
                "the same"
            )


def _convolve(
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    name = f"conv{n}d"
    _check_dtypes(input, weight, bias)
    if groups < 1:
        raise RuntimeError("non-positive groups is not supported")
    if weight._a.ndim != n + 2:
        raise RuntimeError(
            f"Expected {weight._a.ndim}-dimensional input for {weight._a.ndim}-dimensional "
            f"weight{list(weight._a.shape)}, but got {input._a.ndim}-dimensional input of size "
            f"{list(input._a.shape)} instead"
        )
    kernel = tuple(int(k) for k in weight._a.shape[2:])
    stride, dilation = per_axis(stride, n, "stride"), per_axis(dilation, n, "dilation")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError("dilation should be greater than zero")
    pads = _padding(padding, n, kernel, stride, dilation)
    out = weight._a.shape[0]
    if out < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {list(weight._a.shape)} instead"
        )
    if out % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {list(weight._a.shape)} instead"
        )
    x, batched = _batched(input, n, name)
    channels = weight._a.shape[1] * groups
    if x._a.shape[1] != channels:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight._a.shape)}, expected "
            f"input{list(input._a.shape)} to have {channels} channels, but got {x._a.shape[1]} "
            "channels instead"
        )
    sizes = [
        s + (sum(p) if isinstance(p, tuple) else 2 * p)
        for s, p in zip(x._a.shape[2:], pads, strict=True)
    ]
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(s < span for s, span in zip(sizes, spans, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, sizes))}). Kernel "
            f"size: ({' x '.join(map(str, spans))}). Kernel size can't be greater than actual "
            "input size"
        )
    result = xp.convolution(
        x, weight, bias, stride=stride, padding=pads, dilation=dilation, groups=groups
    )
    return result if batched else xp.squeeze(result, axis=0)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over one axis.

    input: (batch, in, length) or without batch, weight: (out, in/groups, k).
    Floating, complex or integer.
    """
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over two axes.

    input: (batch, in, h, w) or without batch, weight: (out, in/groups, kh, kw).

    stride, padding, dilation: a number or one an axis; padding also "same" or "valid". bias: (out,)
    or None. Errors: RuntimeError with PyTorch's texts. Floating, complex or integer.
    """
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over three axes, as conv2d.

    input: (batch, in, d, h, w) or without batch, weight: (out, in/groups, kd, kh, kw), one dtype.
    """
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


def _transpose(
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """The gradient of a convolution for its input, as an operation of its own.

    weight: (in, out/groups, *kernel).
    """
    _check_dtypes(input, weight, bias)
    stride, dilation = per_axis(stride, n, "stride"), per_axis(dilation, n, "dilation")
    pads, extra = per_axis(padding, n, "padding"), per_axis(output_padding, n, "output_padding")
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"output_padding: {list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
        )
    x, batched = _batched(input, n, f"conv_transpose{n}d")
    if x._a.shape[1] != weight._a.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight._a.shape)}, expected "
            f"input{list(input._a.shape)} to have {weight._a.shape[0]} channels, but got "
            f"{x._a.shape[1]} channels instead"
        )
    # Output padding takes back what padding cuts off after the end; beyond that are zeros.
    cut = tuple((p, max(p - e, 0)) for p, e in zip(pads, extra, strict=True))
    axes = zip(x._a.shape[2:], weight._a.shape[2:], stride, cut, dilation, strict=True)
    sizes = tuple((i - 1) * s + d * (k - 1) + 1 - a - b for i, k, s, (a, b), d in axes)
    if min(sizes) < 1:
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, x._a.shape[2:]))}). Calculated "
            f"output size per channel: ({' x '.join(map(str, sizes))}). Output size is too small"
        )
    shape = (x._a.shape[0], weight._a.shape[1] * groups, *sizes)
    result = xp.convolution_input(
        x, weight, shape=shape, stride=stride, padding=cut, dilation=dilation, groups=groups
    )
    if any(e > p for e, p in zip(extra, pads, strict=True)):
        beyond = [
            b
            for e, p in zip(reversed(extra), reversed(pads), strict=True)
            for b in (0, max(e - p, 0))
        ]
        result = xp.pad_constant(result, pad=tuple(beyond))
    if bias is not None:
        result = result + xp.reshape(bias, shape=(-1, *(1,) * n))
    return result if batched else xp.squeeze(result, axis=0)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over one axis, as conv_transpose2d.

    input: (batch, in, length) or without batch, weight: (in, out/groups, k), one dtype.
    """
    return _transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over two axes.

    input: (batch, in, h, w) or without batch, weight: (in, out/groups, kh, kw). One dtype.
    """
    return _transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over three axes, as conv_transpose2d.

    input: (batch, in, d, h, w) or without batch, weight: (in, out/groups, kd, kh, kw), one dtype.
    """
    return _transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
