"""Channels mixed between groups, and moved to and from the plane."""

from __future__ import annotations

from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of `groups` groups dealt out in turn. input: (batch, channels, ...).

    Any dtype.

    Errors: RuntimeError unless groups divides the channels. Source: arXiv:1707.01083.
    """
    shape = tuple(input._a.shape)
    if len(shape) <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} "
            "groups."
        )
    parted = xp.reshape(input, shape=(shape[0], groups, shape[1] // groups, *shape[2:]))
    return xp.reshape(xp.transpose(parted, dim0=1, dim1=2), shape=shape)


def _plane_of(name: str, factor_name: str, input: Tensor, factor: int) -> tuple[int, ...]:
    shape = tuple(input._a.shape)
    if len(shape) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {len(shape)} "
            "dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")
    return shape


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C * r * r, H, W) as (..., C, H * r, W * r), r being upscale_factor.

    Any dtype.

    Errors: RuntimeError unless r * r divides the channels. Source: arXiv:1609.05158.
    """
    r = upscale_factor
    *lead, c, h, w = _plane_of("pixel_shuffle", "upscale_factor", input, r)
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    if r == 1:
        return xp.clone(input)
    n = len(lead)
    parted = xp.reshape(input, shape=(*lead, c // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return xp.reshape(
        xp.permute_dims(parted, dims=order), shape=(*lead, c // (r * r), h * r, w * r)
    )


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H * r, W * r) as (..., C * r * r, H, W), r being downscale_factor.

    Any dtype.

    Errors: RuntimeError unless r divides height and width.
    """
    r = downscale_factor
    *lead, c, h, w = _plane_of("pixel_unshuffle", "downscale_factor", input, r)
    for what, axis, size in (("height", -2, h), ("width", -1, w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but "
                f"input.size({axis})={size} is not divisible by {r}"
            )
    if r == 1:
        return xp.clone(input)
    n = len(lead)
    parted = xp.reshape(input, shape=(*lead, c, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return xp.reshape(xp.permute_dims(parted, dims=order), shape=(*lead, c * r * r, h // r, w // r))
