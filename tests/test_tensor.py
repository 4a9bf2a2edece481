"""Tensor: what it is, how it is made, copied and kept."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import gradhook
from gradhook import nn


def test_tensor_copies_and_as_tensor_shares() -> None:
    array = np.ones(3, np.float32)
    copied, shared = gradhook.tensor(array), gradhook.as_tensor(array)
    array[0] = 5
    assert copied.tolist() == [1, 1, 1]
    assert shared.tolist() == [5, 1, 1]
    assert gradhook.as_tensor(shared) is shared


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (1.5, gradhook.float32),
        ([1, 2], gradhook.int64),
        (True, gradhook.bool),
        ([1j], gradhook.complex64),
        ([], gradhook.float32),
        ([1, 2.5], gradhook.float32),
        (np.float64(1), gradhook.float64),
        (np.arange(2, dtype="i4"), gradhook.int32),
        ([gradhook.tensor(1.0), gradhook.tensor(2.0)], gradhook.float32),
    ],
)
def test_the_dtype_of_data_is_pytorchs(data: object, expected: gradhook.dtype) -> None:
    assert gradhook.tensor(data).dtype == expected


def test_the_default_dtype_decides_for_python_floats() -> None:
    gradhook.set_default_dtype(gradhook.float64)
    try:
        assert gradhook.tensor(1.0).dtype == gradhook.float64
        assert gradhook.ones(2).dtype == gradhook.get_default_dtype() == np.float64
        assert repr(gradhook.ones(1, device="cpu")) == "tensor([1.])"
    finally:
        gradhook.set_default_dtype(gradhook.float32)
    with pytest.raises(TypeError, match="only floating-point types"):
        gradhook.set_default_dtype(gradhook.int64)


def test_a_deep_copy_has_its_own_memory_gradient_and_attributes() -> None:
    x = gradhook.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.note = ["kept"]  # type: ignore[attr-defined]
    made = copy.deepcopy(x)
    with gradhook.no_grad():
        made.mul_(2)
    assert x.tolist() == [1, 1]
    assert made.requires_grad and made.is_leaf
    assert made.grad is not None and made.grad is not x.grad and made.grad.tolist() == [3, 3]
    assert made.note == ["kept"] and made.note is not x.note
    with pytest.raises(RuntimeError, match="detach"):
        copy.deepcopy(x * 2)


def test_tensors_in_one_structure_stay_one_when_copied() -> None:
    x = gradhook.ones(2)
    a, b = copy.deepcopy([x, x])
    assert a is b


@pytest.mark.parametrize("make", [gradhook.ones, lambda *a, **k: nn.Parameter(gradhook.ones(*a))])
def test_a_pickled_tensor_comes_back_as_it_was(make: object) -> None:
    x = make(2, 3, requires_grad=True)  # type: ignore[operator]
    back = pickle.loads(pickle.dumps(x))
    assert type(back) is type(x)
    assert back.requires_grad and back.dtype == x.dtype and back.tolist() == x.tolist()
    leaf = pickle.loads(pickle.dumps(x * 2))
    assert leaf.is_leaf and leaf.requires_grad and leaf.tolist() == (x * 2).tolist()


def test_pickling_says_that_hooks_are_left_behind() -> None:
    x = gradhook.ones(1, requires_grad=True)
    x.register_hook(lambda g: None)
    with pytest.warns(UserWarning, match="will not be serialized"):
        assert pickle.loads(pickle.dumps(x))._backward_hooks is None


def test_dtypes_and_sizes_pickle_as_themselves() -> None:
    for d in (gradhook.float16, gradhook.complex64, gradhook.int64, gradhook.bool):
        assert pickle.loads(pickle.dumps(d)) is d
        assert copy.deepcopy(d) is d
    assert pickle.loads(pickle.dumps(gradhook.ones(2, 3).shape)) == (2, 3)


def test_a_shape_is_a_size_that_behaves_as_a_tuple() -> None:
    shape = gradhook.ones(2, 3, 4).shape
    assert repr(shape) == "gradhook.Size([2, 3, 4])"
    assert shape == (2, 3, 4) and shape.numel() == 24 and type(shape[1:]) is gradhook.Size
    assert hash(shape) == hash((2, 3, 4)) and type(shape + shape) is gradhook.Size


def test_dtypes_equal_numpys_and_print_as_ours() -> None:
    assert gradhook.float32 == np.float32 == gradhook.ones(1).dtype
    assert gradhook.float32 != np.float64 and gradhook.float32 != "no dtype"
    assert {np.dtype("f4"): 1}[gradhook.float32] == 1  # type: ignore[index]
    assert str(gradhook.complex64.to_real()) == "gradhook.float32"
    assert gradhook.finfo(gradhook.float16).max == 65504
    assert gradhook.iinfo(gradhook.int32).max == 2**31 - 1
    with pytest.raises(TypeError, match="iinfo"):
        gradhook.finfo(gradhook.int32)


def test_numbers_come_out_as_python_numbers() -> None:
    assert type(gradhook.tensor(2.5).item()) is float and type(gradhook.tensor(2).item()) is int
    assert float(gradhook.tensor([1.5])) == 1.5 and int(gradhook.tensor(3.7)) == 3
    assert [10, 20][gradhook.tensor(1)] == 20
    assert bool(gradhook.tensor([0.0])) is False
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(gradhook.ones(2))
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        gradhook.ones(2).item()


def test_an_operator_leaves_what_it_does_not_know_to_the_other_side() -> None:
    class Other:
        def __radd__(self, left: object) -> str:
            return "other's"

    assert gradhook.ones(1) + Other() == "other's"
    assert (gradhook.ones(1) == "a string") is False
    x = gradhook.ones(2, device="cpu")
    assert (np.ones(2) * x).tolist() == [1, 1]
    assert isinstance(np.ones(2) * x, gradhook.Tensor)


def test_seeds_reproduce_and_generators_are_independent() -> None:
    gradhook.manual_seed(7)
    a = gradhook.rand(3).tolist()
    gradhook.manual_seed(7)
    assert gradhook.rand(3).tolist() == a
    own = gradhook.Generator().manual_seed(7)
    assert gradhook.rand(3, generator=own).tolist() == a
    state = gradhook.get_rng_state()
    b = gradhook.randn(2, device="cpu").tolist()  # the state is the CPU stream's
    gradhook.set_rng_state(state)
    assert gradhook.randn(2, device="cpu").tolist() == b


def test_a_tensor_and_its_gradient_die_by_reference_counting() -> None:
    gc.disable()
    try:
        x = gradhook.ones(3, requires_grad=True)
        (x * x).sum().backward()
        seen = [weakref.ref(x), weakref.ref(x.grad)]
        del x
        assert [ref() for ref in seen] == [None, None]
    finally:
        gc.enable()
