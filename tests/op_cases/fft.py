"""Rows of ops/fft.py and fft_forms.py; cupy.fft needs cuFFT."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from op_cases import Case, case, normal

X = normal(3, 4)
SPECTRUM = normal(2, 3) + 1j * normal(2, 3, seed=8)
row = partial(case)


def _one(name: str, x: Any, **options: Any) -> list[Case]:
    """A one-dimensional form in every norm, cut, padded, along another dimension."""
    function = getattr(np.fft, name)

    def ref(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return function(x, n, axis, norm)

    given = ({}, {"n": 3, "norm": "ortho"}, {"n": 6, "norm": "forward"}, {"n": 5, "axis": 0})
    return [row(x, ref=ref, **options, **g) for g in given]


def _several(name: str, x: Any, **options: Any) -> list[Case]:
    """A form of several dimensions; hfftn and ihfftn by the Hermitian symmetry of rfftn's."""

    def ref(x: Any, s: Any = None, axis: Any = None, norm: str | None = None) -> Any:
        axis = (-2, -1) if axis is None else axis
        if s is not None:
            s = [x.shape[a] if k == -1 else k for a, k in zip(axis, s, strict=True)]
        turned = {"forward": "backward", "ortho": "ortho"}.get(norm or "", "forward")
        if name[0] == "h":
            return np.fft.irfftn(np.conj(x), s, axis, turned)
        if name[0] == "i" and name[1] == "h":
            return np.conj(np.fft.rfftn(x, s, axis, turned))
        return getattr(np.fft, name[:-1] + "n")(x, s, axis, norm)

    given = (
        {},
        {"s": (4, 5), "axis": (0, 1), "norm": "ortho"},
        {"s": (-1, 3), "axis": (1, 0), "norm": "forward"},
    )
    return [row(x, ref=ref, **options, **g) for g in given]


def _weighed(x: Any, axis: int, n: int, factor: float) -> Any:
    return x * np.array([1, factor, factor if n == 5 else 1])


ROWS = {
    "fft_c2c": [
        row(X, axes=(1,), ref=lambda x, axes: np.fft.fft(x), complexes=True),
        row(
            X,
            axes=(0, 1),
            forward=False,
            scale="n",
            ref=lambda x, axes, forward, scale: np.fft.ifft2(x),
            complexes=True,
        ),
    ],
    "fft_r2c": [
        row(X, axis=0, ref=lambda x, axis: np.fft.rfft(x, axis=0)),
        row(X, axis=1, scale="root", ref=lambda x, axis, scale: np.fft.rfft(x, norm="ortho")),
    ],
    "fft_c2r": [
        row(SPECTRUM, axis=1, n=4, scale="n", ref=lambda x, axis, n, scale: np.fft.irfft(x, 4)),
        row(SPECTRUM, axis=1, n=5, scale="n", ref=lambda x, axis, n, scale: np.fft.irfft(x, 5)),
    ],
    "fft_weighed": [
        row(SPECTRUM, axis=1, n=4, factor=2, ref=_weighed),
        row(SPECTRUM, axis=1, n=5, factor=0.5, ref=_weighed),
    ],
    "fft": _one("fft", X, complexes=True),
    "ifft": _one("ifft", X, complexes=True),
    "rfft": _one("rfft", X),
    "irfft": _one("irfft", X, complexes=True),
    "hfft": _one("hfft", X, complexes=True),
    "ihfft": _one("ihfft", X),
    **{n: _several(n, X, complexes=True) for n in ("fft2", "ifft2", "irfft2", "hfft2")},
    **{n: _several(n, X, complexes=True) for n in ("fftn", "ifftn", "irfftn", "hfftn")},
    **{n: _several(n, X) for n in ("rfft2", "ihfft2", "rfftn", "ihfftn")},
    "fftshift": [
        case(X, ref=np.fft.fftshift, complexes=True),
        case(X, axis=0, ref=lambda x, axis: np.fft.fftshift(x, axis)),
    ],
    "ifftshift": [
        case(X, ref=np.fft.ifftshift, complexes=True),
        case(X, axis=(0,), ref=lambda x, axis: np.fft.ifftshift(x, axis)),
    ],
}
