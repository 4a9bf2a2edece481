"""Convolution, pooling, resampling and padding beside torch's, for drawn shapes and options."""

from __future__ import annotations

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
import gradhook.nn.functional as F  # noqa: E402


def few(draw, n, low, high):
    return [draw.randint(low, high) for _ in range(n)]


def convolution(draw, n, groups):
    stride, dilation, padding = few(draw, n, 1, 3), few(draw, n, 1, 2), few(draw, n, 0, 2)
    options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    return f"conv{n}d", options, (groups * 2, None, *few(draw, n, 1, 3))


def transposed(draw, n, groups):
    name, options, (out, _, *kernel) = convolution(draw, n, groups)
    most = [max(s, d) - 1 for s, d in zip(options["stride"], options["dilation"], strict=True)]
    options["output_padding"] = [draw.randint(0, m) for m in most]
    return name.replace("conv", "conv_transpose"), options, (None, out // groups, *kernel)


def pooled(draw, n, _):
    kernel = few(draw, n, 1, 3)
    options = dict(kernel_size=kernel, stride=few(draw, n, 1, 3), ceil_mode=draw.random() < 0.5)
    options["padding"] = [draw.randint(0, k // 2) for k in kernel]
    if draw.random() < 0.5:
        return f"max_pool{n}d", {**options, "dilation": few(draw, n, 1, 2)}, None
    return f"avg_pool{n}d", {**options, "count_include_pad": draw.random() < 0.5}, None


def adaptive(draw, n, _):
    return f"adaptive_avg_pool{n}d", dict(output_size=few(draw, n, 1, 6)), None


def resampled(draw, n, _):
    linear = ("linear", "bilinear", "trilinear")[n - 1]
    mode = draw.choice(["nearest", "nearest-exact", linear])
    options = {"mode": mode}
    if mode == linear:
        options["align_corners"] = draw.random() < 0.5
    if draw.random() < 0.5:
        options["size"] = few(draw, n, 1, 9)
    else:
        options["scale_factor"] = [draw.choice([0.5, 1.5, 1.7, 2.0]) for _ in range(n)]
    return "interpolate", options, None


def padded(draw, n, _):
    mode = draw.choice(["constant", "reflect", "replicate", "circular"])
    low = 0 if mode == "reflect" else -1
    return "pad", dict(pad=few(draw, 2 * n, low, 2), mode=mode), None


KINDS = [convolution, transposed, pooled, adaptive, resampled, padded]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_drawn_windows_give_torch_s_results_and_gradients(kind, seed):
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    n, groups = draw.choice([1, 2, 2, 3]), draw.choice([1, 1, 2])
    name, options, weight = kind(draw, n, groups)
    channels = 2 * groups
    arrays = [numbers.standard_normal((draw.choice([1, 3]), channels, *few(draw, n, 4, 7)))]
    if weight is not None:
        shape = [channels if k is None else k for k in weight]
        shape[1] = channels // groups if weight[1] is None else weight[1]
        arrays.append(numbers.standard_normal(shape))
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    ours = [gradhook.tensor(a, requires_grad=True) for a in arrays]
    try:
        expected = getattr(torch.nn.functional, name)(*theirs, **options)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            getattr(F, name)(*ours, **options)
        return
    found = getattr(F, name)(*ours, **options)
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-11
    )
    cotangent = numbers.standard_normal(tuple(expected.shape))
    expected.backward(torch.tensor(cotangent))
    found.backward(gradhook.tensor(cotangent))
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-9, atol=1e-11)
