"""`out=`: results written into Tensors that the caller has."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import gradhook
from gradhook import linalg, special
from gradhook.overloads import out as rules


def numbers(*shape):
    return gradhook.tensor(np.random.default_rng(1).standard_normal(shape))


X, Y = numbers(3, 4), numbers(3, 4) + 2

CALLS = {
    "add": lambda **o: gradhook.add(X, Y, alpha=2, **o),
    "mul": lambda **o: gradhook.mul(X, Y, **o),
    "div": lambda **o: gradhook.div(X, Y, rounding_mode="floor", **o),
    "pow": lambda **o: gradhook.pow(Y, 2.0, **o),
    "exp": lambda **o: gradhook.exp(X, **o),
    "sum": lambda **o: gradhook.sum(X, 1, keepdim=True, **o),
    "amax": lambda **o: gradhook.amax(X, 0, **o),
    "cat": lambda **o: gradhook.cat([X, Y], dim=1, **o),
    "matmul": lambda **o: gradhook.matmul(X, Y.t(), **o),
    "gather": lambda **o: gradhook.gather(X, 1, gradhook.zeros(3, 2, dtype=gradhook.int64), **o),
    "maximum": lambda **o: gradhook.maximum(X, Y, **o),
    "masked_select": lambda **o: gradhook.masked_select(X, X > 0, **o),
    "argmax": lambda **o: gradhook.argmax(X, 1, **o),
    "inv": lambda **o: linalg.inv(X[:, :3].contiguous(), **o),
    "erf": lambda **o: special.erf(X, **o),
    "xlog1py": lambda **o: special.xlog1py(X, Y, **o),
}
SEVERAL = {
    "sort": lambda **o: gradhook.sort(X, 1, **o),
    "kthvalue": lambda **o: gradhook.kthvalue(X, 2, **o),
    "aminmax": lambda **o: gradhook.aminmax(X, dim=0, **o),
    "eigh": lambda **o: linalg.eigh(X[:, :3] + X[:, :3].t(), **o),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_result_is_written_into_out_which_is_returned(name):
    expected = CALLS[name]()
    for target in (gradhook.empty_like(expected), gradhook.empty(0, dtype=expected.dtype)):
        address, version = target.data_ptr(), target._version
        found = CALLS[name](out=target)
        assert found is target
        assert found.tolist() == expected.tolist()
        if target.numel() and address:
            assert target.data_ptr() == address or version == 0


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results_go_into_as_many_tensors_under_their_names(name):
    expected = SEVERAL[name]()
    targets = tuple(gradhook.empty_like(e) for e in expected)
    found = SEVERAL[name](out=targets)
    assert type(found) is type(expected)
    assert all(f is t for f, t in zip(found, targets, strict=True))
    assert [f.tolist() for f in found] == [e.tolist() for e in expected]
    with pytest.raises(TypeError, match="expected 2"):
        SEVERAL[name](out=targets[:1])


def test_a_slice_of_a_tensor_is_written_where_it_lies():
    whole = gradhook.zeros(4, 6, dtype=gradhook.float64)
    gradhook.exp(X[:, :3], out=whole[1:, ::2])
    assert whole[1:, ::2].tolist() == X[:, :3].exp().tolist()
    assert not whole[0].any().item() and not whole[:, 1::2].any().item()
    assert whole._version == 1


def test_an_input_may_be_the_out_of_an_elementwise_function():
    x = X.clone()
    assert gradhook.mul(x, 2, out=x) is x
    assert x.tolist() == (X * 2).tolist()


def test_what_was_saved_of_out_is_known_to_be_stale():
    x = numbers(3).requires_grad_()
    buffer = gradhook.ones(3, dtype=gradhook.float64)
    product = x * buffer
    gradhook.exp(x.detach(), out=buffer)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


REFUSED = {
    "no Tensor": (TypeError, "must be Tensor, not int", lambda: gradhook.exp(X, out=3)),
    "a gradient": (
        RuntimeError,
        "don't support automatic differentiation",
        lambda: gradhook.exp(numbers(2).requires_grad_(), out=gradhook.empty(2)),
    ),
    "a kind that is too small": (
        RuntimeError,
        "can't be cast to the desired output type Long",
        lambda: gradhook.exp(X, out=gradhook.empty(3, 4, dtype=gradhook.int64)),
    ),
    "another dtype than the elements'": (
        RuntimeError,
        "Expected out tensor to have dtype",
        lambda: gradhook.amax(X, 0, out=gradhook.empty(4, dtype=gradhook.float32)),
    ),
    "memory that overlaps itself": (
        RuntimeError,
        "more than one element of the written-to tensor",
        lambda: gradhook.exp(X, out=gradhook.empty(1, 4, dtype=gradhook.float64).expand(3, 4)),
    ),
    "an input of what may not overlap": (
        RuntimeError,
        "some elements of the input tensor and the written-to tensor",
        lambda: gradhook.take(X, gradhook.zeros(3, 4, dtype=gradhook.int64), out=X),
    ),
    "another shape": (
        RuntimeError,
        r"out has the shape \[2\], expected \[3, 4\]",
        lambda: gradhook.exp(X, out=gradhook.empty(2, dtype=gradhook.float64)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_out_that_cannot_take_the_result_is_refused_and_left_alone(name):
    error, words, call = REFUSED[name]
    before = X.tolist()
    with pytest.raises(error, match=words):
        call()
    assert X.tolist() == before


def test_a_gradient_is_no_hindrance_under_no_grad():
    x = numbers(2).requires_grad_()
    with gradhook.no_grad():
        assert not gradhook.exp(x, out=gradhook.empty(2, dtype=x.dtype)).requires_grad


def test_wider_and_complex_outs_are_cast_into():
    assert gradhook.add(X, 1, out=gradhook.empty(3, 4, dtype=gradhook.complex128)).is_complex()
    whole = gradhook.tensor([1, 2])
    assert gradhook.add(whole, 1, out=gradhook.empty(2)).tolist() == [2.0, 3.0]


def test_every_name_of_the_list_has_out_and_no_method_has():
    for namespace, names in (
        (gradhook, rules.FUNCTIONS), (special, rules.SPECIAL), (linalg, rules.LINALG),
    ):  # fmt: skip
        for name in names:
            function = getattr(namespace, name)
            assert "out" in inspect.signature(function).parameters, name
            assert function.__doc__
            assert pickle.loads(pickle.dumps(function)) is function, name
    assert pickle.loads(pickle.dumps(gradhook.Tensor.amax)) is gradhook.Tensor.amax
    with pytest.raises(TypeError):
        X.amax(0, out=gradhook.empty(4))


@pytest.mark.parametrize("name", rules.CREATING)
def test_what_makes_tensors_makes_them_of_out_s_dtype(name):
    arguments = {"full": ((3,), 2), "randint": (4, (3,)), "linspace": (0, 1, 3)}.get(name, (3,))
    target = gradhook.empty(0, dtype=gradhook.float64)
    function = getattr(gradhook, name)
    gradhook.manual_seed(1)
    expected = function(*arguments, dtype=gradhook.float64)
    gradhook.manual_seed(1)
    assert function(*arguments, out=target) is target and target.dtype is gradhook.float64
    assert tuple(target.shape) == tuple(expected.shape)
    if name != "empty":
        assert target.tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match=r"dtype Int does not match dtype of out .*Double"):
        function(*arguments, out=target, dtype=gradhook.int32)
    if name != "randperm":
        assert function(*arguments, out=target, requires_grad=True).requires_grad
