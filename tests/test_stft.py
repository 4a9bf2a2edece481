"""stft against SciPy's definition by hand, istft as its inverse, windows against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import gradhook

X = np.random.default_rng(0).standard_normal((2, 40))
W = np.random.default_rng(1).uniform(0.5, 1, 6)


def tensor(x: np.ndarray, **options) -> gradhook.Tensor:
    return gradhook.tensor(x, **options)


def by_hand(x: np.ndarray, w: np.ndarray, n: int, hop: int, half: bool) -> np.ndarray:
    frames = [x[:, k : k + n] * w for k in range(0, x.shape[1] - n + 1, hop)]
    f = np.fft.rfft if half else np.fft.fft
    return np.stack([f(frame) for frame in frames], -1)


@pytest.mark.parametrize("mode", ["reflect", "constant", "circular", "replicate"])
def test_stft_transforms_each_window_of_the_padded_signal(mode):
    numpy_mode = {"circular": "wrap", "replicate": "edge"}.get(mode, mode)
    w = np.pad(W, (1, 1))
    padded = np.pad(X, ((0, 0), (4, 4)), mode=numpy_mode)
    found = gradhook.stft(
        tensor(X), 8, 3, 6, tensor(W), pad_mode=mode, return_complex=True, normalized=True
    )
    expected = by_hand(padded, w, 8, 3, True) / np.sqrt(8)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_stft_of_complex_numbers_is_whole_and_a_real_result_has_two_parts():
    z = X + 1j * X[::-1]
    found = gradhook.stft(tensor(z), 8, center=False)
    np.testing.assert_allclose(found.cpu().numpy(), by_hand(z, np.ones(8), 8, 2, False))
    parts = tensor(X)[0].stft(8, center=False, return_complex=False)
    whole = tensor(X)[0].stft(8, center=False, return_complex=True)
    assert parts.shape == (*whole.shape, 2)
    assert gradhook.view_as_complex(parts).equal(whole)


def test_frames_aligned_to_the_window_begin_at_the_first_sample():
    k = {"window": tensor(W), "center": False, "return_complex": True}
    found = gradhook.stft(tensor(X), 9, 3, 6, align_to_window=True, **k)
    padded = np.pad(X, ((0, 0), (1, 2)))
    expected = by_hand(padded, np.pad(W, (1, 2)), 9, 3, True)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("complexes", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_istft_gives_the_signal_back_with_its_gradient(complexes, normalized):
    given = X + 1j * X[::-1] if complexes else X
    x = tensor(given, requires_grad=True)
    options = {"window": gradhook.hann_window(8, dtype=gradhook.float64), "normalized": normalized}
    spectrum = x.stft(8, return_complex=True, **options)
    back = spectrum.istft(8, length=40, return_complex=complexes,
                          onesided=not complexes, **options)  # fmt: skip
    np.testing.assert_allclose(back.detach().cpu().numpy(), given, rtol=1e-10, atol=1e-10)
    back.abs().pow(2).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * given, rtol=1e-9, atol=1e-9)


def test_istft_cuts_to_a_length_and_pads_with_a_warning():
    spectrum = tensor(X)[0].stft(8, return_complex=True)
    assert spectrum.istft(8, length=15).shape == (15,)
    with pytest.warns(UserWarning, match="padded with zeros"):
        longer = spectrum.istft(8, length=50)
    assert longer[-1].item() == 0 and longer.shape == (50,)
    whole = tensor(X)[0].stft(8, return_complex=True, onesided=False)
    np.testing.assert_allclose(whole.istft(8, onesided=False).cpu().numpy(), X[0])


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_scipys(name, n, periodic):
    made = getattr(gradhook, f"{name}_window")(n, periodic, dtype=gradhook.float64)
    spec = ("kaiser", 12.0) if name == "kaiser" else name
    expected = scipy.signal.get_window(spec, n, periodic) if n else np.zeros(0)
    np.testing.assert_allclose(made.cpu().numpy(), expected, atol=1e-14)


def test_windows_have_dtypes_and_refuse_others():
    assert gradhook.hann_window(4).dtype == gradhook.float32
    assert gradhook.kaiser_window(4, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        gradhook.hann_window(4, dtype=gradhook.int64)
    with pytest.raises(RuntimeError, match="non-negative window_length"):
        gradhook.blackman_window(-1)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, s: x.stft(8), RuntimeError, "return_complex parameter"),
        (lambda x, s: x.stft(90, return_complex=True), RuntimeError, "Padding size"),
        (lambda x, s: x.stft(90, center=False, return_complex=True), RuntimeError, "n_fft <= 40"),
        (lambda x, s: x.stft(8, 0, return_complex=True), RuntimeError, "hop_length > 0"),
        (lambda x, s: x.stft(8, win_length=9, return_complex=True), RuntimeError, "win_length=9"),
        (lambda x, s: x.stft(8, window=x[0], return_complex=True), RuntimeError, r"\[40\]"),
        (lambda x, s: (x + 0j).stft(8, onesided=True), RuntimeError, "onesided output"),
        (lambda x, s: x[None].stft(8, return_complex=True), RuntimeError, "1D or 2D"),
        (lambda x, s: x.long().stft(8, return_complex=True), RuntimeError, "floating point"),
        (lambda x, s: x.stft(8, pad_mode="x", return_complex=True), NotImplementedError, "mode x"),
        (lambda x, s: x.stft(8, align_to_window=True, return_complex=True), RuntimeError, "align"),
        (lambda x, s: s.real.istft(8), RuntimeError, "complex-valued input"),
        (lambda x, s: s.istft(10), RuntimeError, "6, but got 5"),
        (lambda x, s: s.istft(8, onesided=False), RuntimeError, "8, but got 5"),
        (lambda x, s: s.istft(8, 9), RuntimeError, "0 < hop_length <= win_length"),
        (lambda x, s: s.istft(8, win_length=9), RuntimeError, "0 < win_length <= n_fft"),
        (lambda x, s: s.istft(8, length=-1), RuntimeError, "length >= 0"),
        (lambda x, s: s[:, :, :0].istft(8), RuntimeError, "cannot be empty"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, words):
    x = tensor(X)
    with pytest.raises(error, match=words):
        call(x, x.stft(8, return_complex=True))


@pytest.mark.cpu_only(reason="values on a device are not looked at")
def test_windows_that_leave_a_gap_are_refused_on_the_cpu():
    window = gradhook.hann_window(8, dtype=gradhook.float64)
    spectrum = tensor(X).stft(8, window=window, center=False, return_complex=True)
    with pytest.raises(RuntimeError, match="overlap add min: 0"):
        spectrum.istft(8, window=window, center=False)
