"""gradhook.signal: values are SciPy's, gradients are finite differences' and the transpose's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import gradhook
from gradhook import signal
from gradhook.autograd.gradcheck import gradcheck, gradgradcheck
from gradhook.ops.signal_convolution import fast_length

MODES = ("full", "same", "valid")
SHAPES = [((5,), (3,)), ((5,), (4,)), ((3,), (5,)), ((1,), (1,)), ((4, 5), (3, 2)),
          ((2, 3), (4, 4)), ((2, 3, 4), (2, 2, 3))]  # fmt: skip


def leaf(*shape: int, dtype: str = "f8", seed: int = 0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype in ("c16", "c8"):
        values = values + 1j * rng.standard_normal(shape)
    return gradhook.tensor(values.astype(dtype), requires_grad=True)


def host(t) -> np.ndarray:
    return t.detach().cpu().numpy()


def agrees(name: str, *args, tolerance: float = 1e-12, **options) -> None:
    found = getattr(signal, name)(*args, **options)
    given = [host(a) if isinstance(a, gradhook.Tensor) else a for a in args]
    expected = getattr(scipy.signal, name)(*given, **options)
    assert tuple(found.shape) == expected.shape and found.dtype.np == expected.dtype
    np.testing.assert_allclose(host(found), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("c16", "f8"), ("c16", "c16")])
def test_values_are_scipys_for_every_method(dtypes, shapes, mode):
    x, y = (leaf(*s, dtype=d, seed=k) for k, (s, d) in enumerate(zip(shapes, dtypes, strict=True)))
    for name in ("convolve", "correlate"):
        for method in ("auto", "direct", "fft"):
            agrees(name, x, y, mode=mode, method=method)
    agrees("fftconvolve", x, y, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_images_go_on_at_their_boundary_as_scipys(name, boundary, mode):
    for shapes in (((5, 4), (3, 3)), ((5, 4), (2, 4)), ((3, 2), (2, 2))):
        x, y = (leaf(*s, seed=k) for k, s in enumerate(shapes))
        agrees(name, x, y, mode=mode, boundary=boundary)
        agrees(name, x, leaf(*shapes[1], dtype="c16"), mode=mode, boundary=boundary)
    if boundary == "fill":
        agrees(name, x, y, mode=mode, boundary=boundary, fillvalue=1.5)
    if boundary == "wrap":  # longer than the image: it goes round more than once
        agrees(name, leaf(3, 2), leaf(3, 2, seed=1), mode=mode, boundary=boundary)


def test_some_axes_are_convolved_and_the_others_broadcast():
    agrees("fftconvolve", leaf(3, 5), leaf(3, 2, seed=1), axes=1)
    agrees("fftconvolve", leaf(3, 5), leaf(1, 2, seed=1), axes=[-1], mode="same")
    agrees("fftconvolve", leaf(2, 5, 4), leaf(1, 2, 2, seed=1), axes=(1, 2), mode="valid")
    assert gradcheck(
        lambda x, y: signal.fftconvolve(x, y, axes=1, mode="same"), (leaf(2, 4), leaf(1, 3, seed=1))
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_both_sides_have_gradients_of_both_orders(name, mode):
    for dtype in ("f8", "c16"):
        x, y = leaf(4, dtype=dtype), leaf(3, dtype=dtype, seed=1)
        for pair in ((x, y), (y, x)):

            def run(x, y):
                return getattr(signal, name)(x, y, mode=mode)

            assert gradcheck(run, pair) and gradgradcheck(run, pair)


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_images_have_gradients_of_both_orders(name, boundary):
    def run(x, y):
        return getattr(signal, name)(x, y, mode="same", boundary=boundary, fillvalue=0.5)

    pair = leaf(3, 3), leaf(2, 2, seed=1)
    assert gradcheck(run, pair) and gradgradcheck(run, pair)


@pytest.mark.parametrize("method", ["direct", "fft"])
def test_the_gradient_is_the_transpose_of_long_signals_too(method):
    x, y = leaf(700), leaf(90, seed=1)
    for mode in MODES:
        x.grad = y.grad = None
        out = signal.convolve(x, y, mode=mode, method=method)
        z = leaf(*out.shape, seed=2).detach()
        (out * z).sum().backward()
        inner = float((host(out) * host(z)).sum())
        assert abs(inner - float((host(x) * host(x.grad)).sum())) < 1e-10 * 700
        assert abs(inner - float((host(y) * host(y.grad)).sum())) < 1e-10 * 700


def test_the_analytic_signal_is_scipys_and_has_gradients():
    for n in (1, 2, 7, 8):
        agrees("hilbert", leaf(n))
    agrees("hilbert", leaf(6, 3), axis=0)
    agrees("hilbert", leaf(6), N=9)
    agrees("hilbert", leaf(6), N=4)
    x = leaf(5)
    assert gradcheck(signal.hilbert, x) and gradgradcheck(signal.hilbert, x)
    envelope = signal.hilbert(x).abs()
    envelope.sum().backward()
    assert x.grad is not None


def test_integers_stay_integers_and_16_bits_are_summed_in_32():
    x, y = gradhook.tensor([1, 2, 3]), gradhook.tensor([4, 5])
    for method in ("auto", "direct", "fft"):
        found = signal.convolve(x, y, method=method)
        assert found.tolist() == [4, 13, 22, 15] and found.dtype == gradhook.int64
    half = gradhook.ones(3000, dtype=gradhook.float16)
    assert signal.convolve(half, half, mode="valid").tolist() == [3000.0]
    assert signal.convolve(leaf(3, dtype="f4"), leaf(2, dtype="f4")).dtype == gradhook.float32


def test_what_does_not_fit_is_an_error_in_words():
    x = leaf(4)
    with pytest.raises(ValueError, match="as many dimensions in both"):
        signal.convolve(x, leaf(2, 2))
    with pytest.raises(ValueError, match="and none empty"):
        signal.correlate(x, leaf(0))
    with pytest.raises(ValueError, match="found mode='all'"):
        signal.convolve(x, x, mode="all")
    with pytest.raises(ValueError, match="at least as long in every dimension"):
        signal.convolve(leaf(3, 4), leaf(4, 3), mode="valid")
    with pytest.raises(ValueError, match="boundary='wide'"):
        signal.convolve2d(leaf(3, 3), leaf(2, 2), boundary="wide")
    with pytest.raises(ValueError, match="along dimension 0, which is not in axes"):
        signal.fftconvolve(leaf(3, 4), leaf(2, 4), axes=1)
    with pytest.raises(ValueError, match="expected a real one"):
        signal.hilbert(leaf(3, dtype="c16"))
    with pytest.raises(ValueError, match="found N=0"):
        signal.hilbert(x, 0)
    with pytest.raises(TypeError, match="found list, expected a Tensor"):
        signal.convolve([1.0], x)


def test_fast_lengths_have_small_factors_and_none_is_between():
    def smooth(n: int) -> bool:
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n == 1

    for n in range(1, 500):
        assert fast_length(n) == next(k for k in range(n, 2 * n) if smooth(k))
