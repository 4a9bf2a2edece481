"""Fractional max pooling: maxima of windows at pseudo-random steps."""

from __future__ import annotations

from typing import Any

from gradhook import creation
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

AXES = ("time", "height", "width")


def _entries(name: str, what: str, value: Any, n: int) -> tuple[Any, ...]:
    """One number an axis. Errors: RuntimeError for another count."""
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(entries) not in (1, n):
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of Ints")
    return entries * n if len(entries) == 1 else entries


def _output(
    name: str, n: int, input: Tensor, output_size: Any, output_ratio: Any
) -> tuple[Any, ...]:
    if output_size is not None:
        return tuple(int(k) for k in _entries(name, "output_size", output_size, n))
    if output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
    if len(ratios) != n:
        raise ValueError(
            f"{name} requires output_ratio to be a single number or {n} numbers, found {ratios}"
        )
    spatial = input._a.shape[-n:]
    return tuple(int(size * ratio) for size, ratio in zip(spatial, ratios, strict=True))


def _samples(name: str, n: int, shape: tuple[int, ...], input: Tensor, given: Any) -> Tensor:
    """(batch, channels, n) numbers in [0, 1). Errors: RuntimeError for other given ones."""
    if given is None:
        return creation.rand(*shape[:2], n, dtype=input.dtype, device=input.device)
    found = tuple(given.shape)
    if given.dtype != input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if len(found) != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {len(found)}")
    if found[0] < shape[0]:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if found[1] != shape[1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if found[2] != n:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {n}; got {found[2]}.")
    return given  # type: ignore[no-any-return]


def _fractional_max_pool(
    n: int,
    input: Tensor,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: bool,
    samples: Any,
) -> Any:
    name = f"fractional_max_pool{n}d"
    shape = tuple(int(k) for k in input._a.shape)
    if len(shape) < n:
        raise IndexError(
            f"Dimension out of range: {name} expects {n + 1} or {n + 2} dimensions, found "
            f"{len(shape)}"
        )
    output = _output(name, n, input, output_size, output_ratio)
    kernel = tuple(int(k) for k in _entries(name, "kernel_size", kernel_size, n))
    if len(shape) not in (n + 1, n + 2):
        error = IndexError if len(shape) == n else RuntimeError
        raise error(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}")
    for d, size in enumerate(shape[-n - 1 :], len(shape) - n - 1):
        if size == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{list(shape)} with dimension {d} being empty."
            )
    if input._a.dtype.kind != "f" and input.dtype.title != "BFloat16":
        raise NotImplementedError(f"{name} is not implemented for {input.dtype.title!r}")
    for axis, size, k, windows in zip(AXES[-n:], shape[-n:], kernel, output, strict=True):
        if windows + k - 1 > size or k < 1:
            raise RuntimeError(
                f"{name}(): pool {axis} {k} too large relative to input {axis} {size}"
            )
    batched = input if len(shape) == n + 2 else xp.expand_dims(input, axis=0)
    drawn = _samples(name, n, tuple(batched._a.shape), input, samples)
    values, indices = xp.fractional_pool(batched, drawn, kernel=kernel, output=output)
    if batched is not input:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows at pseudo-random steps, output_size of them or output_ratio of the input.

    input: (batch, channels, h, w) or without batch, floating. _random_samples: (batch, channels, 2)
    in [0, 1), drawn without. Result: with return_indices also the flat index of each in its plane,
    int64. Errors: ValueError, RuntimeError, IndexError. Source: torch.nn.functional.
    """
    return _fractional_max_pool(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima over the last three axes, as fractional_max_pool2d; _random_samples: (..., 3)."""
    return _fractional_max_pool(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
