"""gradhook.fft: dtypes, lengths, errors, frequencies. Values and gradients: test_ops.py."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook


def numbers(*shape: int, dtype: gradhook.dtype = gradhook.float32) -> gradhook.Tensor:
    return gradhook.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize(
    ("given", "spectrum", "signal"),
    [
        (gradhook.float32, gradhook.complex64, gradhook.float32),
        (gradhook.float64, gradhook.complex128, gradhook.float64),
        (gradhook.int64, gradhook.complex64, gradhook.float32),
        (gradhook.bool, gradhook.complex64, gradhook.float32),
    ],
)
def test_a_transform_keeps_the_precision_and_integers_take_the_default_dtype(
    given, spectrum, signal
):
    x = numbers(2, 4).to(given)
    for name in ("fft", "ifft", "rfft", "ihfft", "fft2", "rfft2", "fftn", "ihfftn"):
        assert getattr(gradhook.fft, name)(x).dtype == spectrum, name
    for name in ("irfft", "hfft", "irfft2", "hfftn"):
        assert getattr(gradhook.fft, name)(x).dtype == signal, name


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft2", "ifftn"])
def test_half_precision_is_refused_with_the_way_out(name):
    with pytest.raises(RuntimeError, match=r"Unsupported dtype Half.*\.float\(\)"):
        getattr(gradhook.fft, name)(numbers(2, 4).half())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rfft", "rfft expects a real input tensor, but got ComplexFloat"),
        ("ihfft", "ihfft expects a real input tensor, but got ComplexFloat"),
        ("rfftn", "rfftn expects a real-valued input tensor, but got ComplexFloat"),
        ("ihfft2", "Only supports floating-point dtypes, but found: ComplexFloat"),
    ],
)
def test_a_transform_of_real_numbers_refuses_complex_ones(name, words):
    with pytest.raises(RuntimeError, match=words):
        getattr(gradhook.fft, name)(numbers(2, 4) + 0j)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f, x: f.fft(x.sum()), IndexError, "Dimension specified as -1"),
        (lambda f, x: f.fft(x, dim=2), IndexError, r"\[-2, 1\], but got 2"),
        (lambda f, x: f.fft(x, n=0), RuntimeError, r"data points \(0\)"),
        (lambda f, x: f.fft(x, n=-1), RuntimeError, r"data points \(-1\)"),
        (lambda f, x: f.fft(x, n=2.5), TypeError, "must be int, not float"),
        (lambda f, x: f.irfft(x[:, :1]), RuntimeError, r"data points \(0\)"),
        (lambda f, x: f.fft(x, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
        (lambda f, x: f.fftn(x, dim=(0, -2)), RuntimeError, "dims must be unique"),
        (lambda f, x: f.fftn(x, s=(2,), dim=(0, 1)), RuntimeError, "the same length"),
        (lambda f, x: f.fftn(x, s=(2, 2, 2)), RuntimeError, "3 values .* 2 dimensions"),
        (lambda f, x: f.irfftn(x, dim=()), RuntimeError, "irfftn must transform at least"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call(gradhook.fft, numbers(2, 4))


def test_a_length_of_minus_one_keeps_a_dimension_and_s_without_dim_means_the_last_ones():
    x = numbers(2, 3, 4)
    assert gradhook.fft.fftn(x, s=(-1, 6)).shape == (2, 3, 6)
    assert gradhook.fft.irfftn(x, s=(-1, -1)).shape == (2, 3, 6)
    assert gradhook.fft.rfftn(x, s=5).shape == (2, 3, 3)
    assert gradhook.fft.fftn(x, dim=()).equal(x + 0j)
    assert gradhook.fft.fft(gradhook.zeros(0, 3)).shape == (0, 3)
    assert gradhook.fft.irfft(gradhook.zeros(0, 3)).shape == (0, 4)


def test_the_energy_of_a_spectrum_has_the_gradient_of_parseval():
    x = numbers(2, 5, dtype=gradhook.float64).requires_grad_()
    (gradhook.fft.fft(x, norm="ortho").abs() ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * x.detach().cpu().numpy())


def test_frequencies():
    assert gradhook.fft.fftfreq(5, 0.5).tolist() == pytest.approx([0, 0.4, 0.8, -0.8, -0.4])
    assert gradhook.fft.fftfreq(4, dtype=gradhook.float64).tolist() == [0, 0.25, -0.5, -0.25]
    assert gradhook.fft.rfftfreq(4).tolist() == [0, 0.25, 0.5]
    assert gradhook.fft.fftfreq(0).shape == (0,)
    assert gradhook.fft.rfftfreq(4, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="requires a floating point or complex dtype"):
        gradhook.fft.fftfreq(4, dtype=gradhook.int64)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        gradhook.fft.rfftfreq(-1)
