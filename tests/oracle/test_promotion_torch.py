"""The dtype of every pair of operands is PyTorch's: tensors, 0-d tensors, Python numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch", reason="torch is the oracle; .ci/run installs it")

DTYPES = ["bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NUMBERS = [True, 2, 2.5, 2j]
OPS = ["add", "mul", "div", "maximum", "eq", "pow"]


def kind(lib: object, op: str, a: object, b: object) -> str:
    """The dtype of the result, or that it is refused."""
    try:
        result = getattr(lib, op)(a, b)
    except (RuntimeError, TypeError, NotImplementedError):
        return "refused"
    return str(result.dtype).rpartition(".")[2]


def operand(lib: object, name: str, zero: bool) -> object:
    array = np.ones((), name) if zero else np.ones(2, name)
    return lib.from_numpy(array)  # type: ignore[attr-defined]


@pytest.mark.parametrize("op", OPS)
def test_two_tensors_promote_as_in_pytorch(op: str) -> None:
    names = DTYPES + (COMPLEX if op != "maximum" else [])
    wrong = []
    for a, b, za, zb in product(names, names, (False, True), (False, True)):
        if "float16" in (a, b) and {a, b} & set(COMPLEX):
            continue  # torch has complex32 for it
        ours, theirs = (
            kind(lib, op, operand(lib, a, za), operand(lib, b, zb)) for lib in (gradhook, torch)
        )
        if ours != theirs:
            wrong.append((a, za, b, zb, ours, theirs))
    assert not wrong


@pytest.mark.parametrize("op", ["add", "mul", "div", "eq"])
def test_a_tensor_and_a_number_promote_as_in_pytorch(op: str) -> None:
    wrong = []
    for a, number, zero in product(DTYPES + COMPLEX, NUMBERS, (False, True)):
        if a == "float16" and isinstance(number, complex):
            continue
        ours, theirs = (kind(lib, op, operand(lib, a, zero), number) for lib in (gradhook, torch))
        if ours != theirs:
            wrong.append((a, zero, number, ours, theirs))
    assert not wrong


def test_promote_types_is_pytorchs() -> None:
    for a, b in product(DTYPES + COMPLEX, repeat=2):
        if "float16" in (a, b) and {a, b} & set(COMPLEX):
            continue
        ours = gradhook.promote_types(getattr(gradhook, a), getattr(gradhook, b))
        theirs = torch.promote_types(getattr(torch, a), getattr(torch, b))
        assert str(ours) == str(theirs).replace("torch.", "gradhook."), (a, b)
