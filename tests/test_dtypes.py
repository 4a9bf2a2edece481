"""Dtypes: what an op refuses, by one rule of the table, and what it gives for whole and complex
numbers.
"""

from __future__ import annotations

import numpy as np
import pytest
from op_cases import cases

import gradhook
from gradhook.autograd.operands import recover
from gradhook.autograd.record import ops
from gradhook.ops.table import TABLE

ROWS = cases()
SAMPLE = {
    "b": np.array([True, False]), "i": np.array([1, 2]), "u": np.array([1, 2], "u1"),
    "f": np.array([0.25, 0.75]), "c": np.array([0.25 + 1j, 0.5]),
}  # fmt: skip


def cast(x, kind):
    """A Tensor of an array, floating ones cast to a kind of dtype."""
    if x is None:
        return None
    return gradhook.tensor(x.astype(SAMPLE[kind].dtype) if x.dtype.kind in "fc" else x)


def refused() -> list[tuple[str, str]]:
    """(op, kind) of what is refused. What an op turns into floats first is taken."""
    found = []
    for name, row in TABLE.items():
        if row.takes is None or name not in ROWS or ROWS[name][0].inputs[0].dtype.kind not in "fc":
            continue
        promoted = "biu" if row.promote == "float" and not row.composite else ""
        found += [(name, k) for k in SAMPLE if k not in row.takes + promoted]
    return found


@pytest.mark.parametrize(("name", "kind"), refused())
def test_a_dtype_that_an_op_does_not_take_is_refused_by_name(name, kind):
    c = ROWS[name][0]
    title = gradhook.as_tensor(SAMPLE[kind]).dtype.title
    with pytest.raises(NotImplementedError, match=f"not implemented for '{title}'.*found dtype"):
        getattr(ops, name)(*[cast(x, kind) for x in c.inputs], **c.attributes)


def test_the_rule_looks_at_the_promoted_dtype():
    x = gradhook.tensor([1.0, 2.0])
    for y in (gradhook.tensor([1j, 2.0]), gradhook.tensor(1j)):
        with pytest.raises(NotImplementedError, match="ComplexFloat"):
            gradhook.maximum(x, y)
    with pytest.raises(NotImplementedError, match="ComplexFloat"):
        gradhook.fmod(x, 1j)
    assert gradhook.erf(gradhook.tensor([1, 2])).dtype == gradhook.float32


def test_a_refused_method_in_place_leaves_the_tensor_as_it_is():
    x = gradhook.tensor([1.5 + 1j])
    with pytest.raises(NotImplementedError, match="floor"):
        x.floor_()
    assert x.tolist() == [1.5 + 1j] and x._version == 0


def test_an_error_of_numpy_about_a_cast_is_a_plain_type_error_that_names_the_op():
    with pytest.raises(TypeError, match="Cannot cast") as numpys:
        np.add(np.ones(2), 0.5, out=np.zeros(2, "i8"))
    with pytest.raises(TypeError, match="square: Cannot cast") as told:
        recover(TABLE["square"], None, numpys.value, (gradhook.ones(2),), {})
    assert type(told.value) is TypeError


def test_averages_and_limits_of_integers_are_whole_without_their_fraction():
    x = gradhook.tensor([[[-8, 6, 9, 0, 5, -1]]])
    F = gradhook.nn.functional
    assert F.avg_pool1d(x, 3).tolist() == [[[2, 1]]]  # 7 / 3, 4 / 3
    assert F.avg_pool1d(x, 2).tolist() == [[[-1, 4, 2]]]  # towards 0
    assert F.avg_pool2d(x, (1, 2), divisor_override=-1).tolist() == [[[2, -9, -4]]]
    assert F.hardtanh(x, -2.5, 5.5).tolist() == [[[-2, 5, 5, 0, 5, -1]]]
    assert F.relu6(x).dtype == gradhook.int64
    for wrong, what in ((x > 0, "Bool"), (x.to(gradhook.uint8), "unsigned")):
        with pytest.raises(RuntimeError, match=what):
            F.hardtanh(wrong)


def test_limits_of_whole_ranges_lose_their_fraction():
    assert gradhook.arange(0, 3.1, dtype=gradhook.int64).tolist() == [0, 1, 2]
    assert gradhook.arange(0.0, -8.000001, -4.0, dtype=gradhook.int64).tolist() == [0, -4]
    assert gradhook.linspace(4.3, 0, 5, dtype=gradhook.int64).tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("polygamma", (1,)),
        ("mvlgamma", (1,)),
        ("ldexp", (gradhook.ones(2),)),
        ("float_power", (2,)),
    ],
)
def test_a_result_that_integers_cannot_hold_is_refused_in_place(name, arguments):
    x = gradhook.tensor([2, 3])
    with pytest.raises(RuntimeError, match="result"):
        getattr(x, f"{name}_")(*arguments)
    assert x.tolist() == [2, 3] and x._version == 0


def test_float_power_in_place_takes_doubles_only():
    with pytest.raises(RuntimeError, match="requires dtype Double"):
        gradhook.ones(2).float_power_(2)
    assert gradhook.tensor([3.0], dtype=gradhook.float64).float_power_(2).tolist() == [9.0]


def test_both_parts_of_complex_numbers_are_drawn_uniformly():
    x = gradhook.zeros(2000, dtype=gradhook.complex64).uniform_(-1, 3)
    for part in (x.real, x.imag):
        assert -1 <= float(part.min()) < -0.9 and 2.9 < float(part.max()) < 3
        assert abs(float(part.mean()) - 1) < 0.15


def test_complex_logaddexp_is_stable_and_keeps_the_turns_of_the_larger():
    x, y = gradhook.tensor([800 + 9j, -5 + 1j]), gradhook.tensor([-800 + 2j, 3 - 7j])
    found = gradhook.logaddexp(x, y)
    assert found[0].tolist() == 800 + 9j
    assert found[1].tolist() == pytest.approx(3 - 7j + np.log1p(np.exp(-8 + 8j)), abs=1e-5)
    cumulated = gradhook.logcumsumexp(gradhook.tensor([1 + 1j, 2 - 1j, 0.5j]), 0)
    expected = np.cumsum(np.exp([1 + 1j, 2 - 1j, 0.5j]))
    np.testing.assert_allclose(np.exp(np.array(cumulated.tolist())), expected, rtol=1e-5)
    endless = gradhook.logaddexp(gradhook.tensor([-np.inf + 1j]), gradhook.tensor([-np.inf + 2j]))
    assert endless.real.tolist() == [-np.inf]


def test_an_infinite_power_of_two_has_no_part_that_became_nan_by_a_product():
    assert gradhook.exp2(gradhook.tensor([complex(-np.inf, 1.0)])).tolist() == [0]


@pytest.mark.parametrize(
    ("reduce", "include", "expected"),
    [
        ("sum", True, [True, True]), ("prod", True, [False, True]), ("prod", False, [False, True]),
        ("amax", False, [False, True]), ("amin", False, [False, True]),
        ("amin", True, [False, True]),
    ],
)  # fmt: skip
def test_booleans_are_reduced_into_places(reduce, include, expected):
    x, index = gradhook.tensor([True, True]), gradhook.tensor([0, 1, 0])
    src = gradhook.tensor([False, True, False])
    found = gradhook.scatter_reduce(x, 0, index, src, reduce, include_self=include)
    assert found.tolist() == expected


def test_complex_numbers_are_reduced_into_places_but_have_no_extremum():
    x, index = gradhook.tensor([1j, 2.0]), gradhook.tensor([0, 1, 0])
    src = gradhook.tensor([1.0, 1j, 3.0])
    assert gradhook.scatter_reduce(x, 0, index, src, "sum").tolist() == [4 + 1j, 2 + 1j]
    assert gradhook.scatter_reduce(x, 0, index, src, "prod").tolist() == [3j, 2j]
    means = gradhook.scatter_reduce(x, 0, index, src, "mean", include_self=False)
    assert means.tolist() == [2, 1j]
    with pytest.raises(NotImplementedError, match="complex"):
        gradhook.scatter_reduce(x, 0, index, src, "amax")


ADDING = {
    "scatter_add": lambda x, i, s: x.scatter_add(0, i, s),
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_put": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce(0, i, s, "sum"),
}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int64", "float16"])
@pytest.mark.parametrize("name", ADDING)
def test_small_numbers_are_added_into_places(name, dtype):
    kind = getattr(gradhook, dtype)
    x, s = (gradhook.tensor(v, dtype=kind) for v in ([1, 0, 0], [1, 0, 1]))
    found = ADDING[name](x, gradhook.tensor([0, 1, 0]), s)
    expected = [1, 0, 0] if kind is gradhook.bool else [3, 0, 0]
    assert found.dtype is kind and found.tolist() == expected
