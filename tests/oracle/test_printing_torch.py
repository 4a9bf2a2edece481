"""Printed tensors have PyTorch's layout, character by character."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch", reason="torch is the oracle; .ci/run installs it")

RNG = np.random.default_rng(0)
ARRAYS = {
    "whole floats": np.ones((2, 3)),
    "floats": RNG.standard_normal((3, 4)),
    "float32": RNG.standard_normal((2, 2)).astype("f4"),
    "float16": RNG.standard_normal(3).astype("f2"),
    "large and small": np.array([1.0, 1e10]),
    "tiny": np.array([1e-5, 2e-5]),
    "wide range": np.array([0.001, 1234.5]),
    "large whole": np.array([1e9, 2e9]),
    "not finite": np.array([1.5, np.inf, -np.inf, np.nan]),
    "whole with nan": np.array([1.0, np.nan, -3.0]),
    "only nan": np.array([np.nan, np.nan]),
    "zeros": np.zeros(3),
    "negative zero": np.array([-0.0, 1.0]),
    "negative": -RNG.random((2, 2)) * 100,
    "scalar": np.array(3.25),
    "whole scalar": np.array(3.0, "f4"),
    "int scalar": np.array(7),
    "ints": np.arange(-3, 9).reshape(3, 4),
    "int32": np.arange(3, dtype="i4"),
    "bools": np.array([[True, False], [False, True]]),
    "bytes": np.arange(4, dtype="u1"),
    "complex": np.array([1 + 2j, -3.5 - 0.25j]),
    "complex64": np.array([1 + 2j, 3 - 1j], "c8"),
    "whole complex": np.array([1 + 2j, 3 + 0j]),
    "complex of wide range": np.array([1e-6 + 2j, 3e5 - 1j]),
    "empty": np.zeros(0),
    "empty matrix": np.zeros((0, 3)),
    "empty ints": np.zeros((2, 0), "i8"),
    "three axes": np.arange(24.0).reshape(2, 3, 4),
    "four axes": np.arange(16.0).reshape(2, 2, 2, 2),
    "long row": np.arange(40.0),
    "long rows": RNG.standard_normal((2, 30)),
    "summarised": np.arange(2000.0),
    "summarised matrix": np.arange(2000.0).reshape(40, 50),
    "summarised in one axis": np.arange(3000.0).reshape(1000, 3),
    "summarised ints": np.arange(4000).reshape(2, 2000),
    "summarised in depth": np.arange(8000.0).reshape(20, 20, 20),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_tensor_prints_as_in_pytorch(name: str) -> None:
    array = ARRAYS[name]
    expected = repr(torch.from_numpy(array.copy())).replace("torch.", "gradhook.")
    assert repr(gradhook.from_numpy(array.copy())) == expected


def test_history_prints_as_in_pytorch() -> None:
    def printed(lib: object) -> list[str]:
        x = lib.tensor([[1.0, 2.0]], requires_grad=True)  # type: ignore[attr-defined]
        wide = lib.ones(20, requires_grad=True)  # type: ignore[attr-defined]
        return [repr(t) for t in (x, x * 2, x.sum(), x.exp(), wide, wide + 1, x.detach())]

    assert printed(gradhook) == printed(torch)


@pytest.mark.parametrize(
    "options", [{"precision": 2}, {"sci_mode": True}, {"linewidth": 40}, {"threshold": 5}]
)
def test_print_options_act_as_in_pytorch(options: dict[str, object]) -> None:
    array = RNG.standard_normal((3, 4))
    try:
        gradhook.set_printoptions(**options)
        torch.set_printoptions(**options)
        assert repr(gradhook.from_numpy(array)) == repr(torch.from_numpy(array)).replace(
            "torch.", "gradhook."
        )
    finally:
        defaults = dict(precision=4, sci_mode=None, linewidth=80, threshold=1000)
        gradhook.set_printoptions(**defaults)
        torch.set_printoptions(**defaults)
