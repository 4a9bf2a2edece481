"""Every op: gradients of both orders against finite differences, results against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import share_memory
from op_cases import Case, cases, parameters

import gradhook
from gradhook.autograd.gradcheck import gradcheck, gradgradcheck
from gradhook.autograd.record import ops
from gradhook.ops.table import TABLE

CASES = cases()
PUBLIC = {name for name, row in TABLE.items() if row.torch is not None or not row.composite}
EACH = parameters()
NO_GRADIENT = {name for name, row in TABLE.items() if not any(row.formulas.values())}


def tensors(c: Case, complexes: bool = False) -> list:
    """The case's inputs as Tensors that require grad where they can."""
    found = []
    for k, x in enumerate(c.inputs):
        if x is None:
            found.append(None)
            continue
        if complexes and x.dtype.kind == "f":
            x = x + 1j * np.random.default_rng(k).uniform(0.2, 0.7, x.shape)
        t = gradhook.tensor(np.asarray(x))
        found.append(t.requires_grad_() if x.dtype.kind in "fc" and k not in c.constant else t)
    return found


def check(name: str, c: Case, complexes: bool = False) -> None:
    """gradcheck and gradgradcheck of an op in its differentiable inputs."""
    inputs = tensors(c, complexes)
    places = [k for k, t in enumerate(inputs) if t is not None and t.requires_grad]
    if not places or (name in NO_GRADIENT and not TABLE[name].composite):
        return

    def run(*moved):
        given = list(inputs)
        for k, t in zip(places, moved, strict=True):
            given[k] = t
        found = getattr(ops, name)(*(c.before(*given) if c.before else given), **c.attributes)
        return c.after(found) if c.after else found

    checked = tuple(inputs[k] for k in places)
    assert gradcheck(run, checked, atol=c.tolerance, rtol=1e-3)
    if c.second:
        assert gradgradcheck(run, checked, atol=10 * c.tolerance, rtol=1e-3)


def test_every_op_has_a_row():
    assert sorted(PUBLIC - set(CASES)) == []


def test_every_row_is_of_an_op():
    assert sorted(set(CASES) - set(TABLE)) == []


@pytest.mark.parametrize(("name", "c"), EACH)
def test_gradients_agree_with_finite_differences(name, c):
    check(name, c)


@pytest.mark.parametrize(("name", "c"), [p for p in EACH if p.values[1].complexes])
def test_complex_gradients_agree_with_finite_differences(name, c):
    check(name, c, complexes=True)


@pytest.mark.parametrize(("name", "c"), [p for p in EACH if p.values[1].reference])
def test_results_agree_with_the_reference(name, c):
    arrays = [x for x in c.inputs]
    before = [None if x is None else x.copy() for x in arrays]
    with np.errstate(all="ignore"):
        expected = c.reference(*arrays, **c.attributes)
    found = getattr(ops, name)(*tensors(c), **c.attributes)
    several = isinstance(found, tuple | list)
    for f, e in zip(
        found if several else [found], expected if several else [expected], strict=True
    ):
        assert f.shape == np.shape(e)
        assert f.dtype.np == np.asarray(e).dtype
        np.testing.assert_allclose(f.detach().cpu().numpy(), e, rtol=1e-12, atol=1e-12)
    for x, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, b)


@pytest.mark.parametrize(("name", "c"), EACH)
def test_only_views_share_memory_with_their_input(name, c):
    inputs = tensors(c)
    found = getattr(ops, name)(*inputs, **c.attributes)
    if TABLE[name].view or TABLE[name].composite:
        return
    for f in found if isinstance(found, tuple | list) else [found]:
        for t in inputs:
            assert t is None or not share_memory(f, t)
