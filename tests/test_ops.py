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


def differentiable(name: str, c: Case, complexes: bool = False):
    """The op as a function of its differentiable inputs alone, and these; None without any."""
    inputs = tensors(c, complexes)
    places = [k for k, t in enumerate(inputs) if t is not None and t.requires_grad]
    if not places or (name in NO_GRADIENT and not TABLE[name].composite):
        return None

    def run(*moved):
        given = list(inputs)
        for k, t in zip(places, moved, strict=True):
            given[k] = t
        found = getattr(ops, name)(*(c.before(*given) if c.before else given), **c.attributes)
        return c.after(found) if c.after else found

    return run, tuple(inputs[k] for k in places)


def check(name: str, c: Case, complexes: bool = False) -> None:
    """gradcheck and gradgradcheck of an op in its differentiable inputs."""
    found = differentiable(name, c, complexes)
    if found is None:
        return
    assert gradcheck(*found, atol=c.tolerance, rtol=1e-3)
    if c.second:
        assert gradgradcheck(*found, atol=10 * c.tolerance, rtol=1e-3)


def directions(like, seed: int) -> list:
    """A standard normal tensor for each."""
    rng = np.random.default_rng(seed)
    made = []
    for t in like:
        values = rng.standard_normal(t.shape)
        if t.is_complex():
            values = values + 1j * rng.standard_normal(t.shape)
        made.append(gradhook.tensor(np.asarray(values, t.dtype.np)))
    return made


def inner(a, b) -> float:
    """The real inner product of lists of tensors; None counts as zero."""
    pairs = [
        (x.detach().cpu().numpy(), y.cpu().numpy())
        for x, y in zip(a, b, strict=True)
        if x is not None
    ]
    return float(sum((x.conj() * y).sum().real for x, y in pairs))


def check_adjoint(name: str, c: Case, complexes: bool = False) -> None:
    """<vjp(g), t> is <g, jvp(t)>, the jvp being the gradient of the recorded vjp in g; the recorded
    vjp is that of a plain backward."""
    found = differentiable(name, c, complexes)
    if found is None:
        return
    run, inputs = found
    results = run(*inputs)
    several = list(results) if isinstance(results, tuple | list) else [results]
    outputs = [o for o in several if o.requires_grad]
    if not outputs:
        return
    cotangents, tangents = directions(outputs, 21), directions(inputs, 22)
    options = dict(allow_unused=True, retain_graph=True)
    plain = gradhook.autograd.grad(outputs, inputs, cotangents, **options)
    for g in cotangents:
        g.requires_grad_()
    recorded = gradhook.autograd.grad(
        outputs, inputs, cotangents, create_graph=True, allow_unused=True
    )
    pairs = [
        (r, t) for r, t in zip(recorded, tangents, strict=True) if r is not None and r.requires_grad
    ]
    pushed = (
        gradhook.autograd.grad(
            [r for r, _ in pairs], cotangents, [t for _, t in pairs], allow_unused=True
        )
        if pairs
        else [None] * len(cotangents)
    )
    left, right = inner(plain, tangents), inner(pushed, [g.detach() for g in cotangents])
    scale = 1 + sum(float(abs(p.cpu().numpy()).sum()) for p in plain if p is not None)
    assert abs(left - right) <= c.adjoint * scale, (left, right)
    for p, r in zip(plain, recorded, strict=True):
        assert (p is None) == (r is None)
        if p is not None:
            np.testing.assert_allclose(
                r.detach().cpu().numpy(), p.cpu().numpy(), rtol=1e-10, atol=1e-10 * scale
            )


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


@pytest.mark.parametrize("complexes", [False, True])
@pytest.mark.parametrize(("name", "c"), EACH)
def test_the_gradient_is_the_adjoint_of_the_derivative(name, c, complexes):
    if not complexes or c.complexes:
        check_adjoint(name, c, complexes)


def test_second_order_of_every_op_is_checked_against_finite_differences():
    unchecked = {name for name, rows in CASES.items() if not any(c.second for c in rows)}
    assert sorted(unchecked) == []


@pytest.mark.parametrize(("name", "c"), [p for p in EACH if p.values[0] in NO_GRADIENT])
def test_an_op_without_gradient_gives_results_that_need_none(name, c):
    if TABLE[name].composite:
        return
    found = getattr(ops, name)(*tensors(c), **c.attributes)
    assert not any(f.requires_grad for f in (found if isinstance(found, tuple) else [found]))


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


WRITES_CONSTANTS = sorted(
    name
    for name in NO_GRADIENT
    if TABLE[name].inplace
    and not TABLE[name].composite
    and CASES[name][0].inputs[0].dtype.kind == "f"
)


@pytest.mark.parametrize("name", WRITES_CONSTANTS)
@pytest.mark.parametrize("through_view", [False, True])
def test_what_an_op_without_gradient_overwrote_gets_a_zero_gradient(name, through_view):
    c = CASES[name][0]
    inputs = [gradhook.tensor(np.asarray(x)) for x in c.inputs]
    leaf = inputs[0].requires_grad_()
    whole = gradhook.stack([leaf, leaf * 2])
    target = whole[1] if through_view else leaf.clone()
    method = getattr(target, f"{TABLE[name].torch.partition('(')[0].rpartition('.')[2]}_")
    found = method(*inputs[1:], **c.attributes)
    (g,) = gradhook.autograd.grad((whole if through_view else found).sum(), leaf)
    expected = np.ones(leaf.shape) if through_view else np.zeros(leaf.shape)  # whole[0] is the leaf
    np.testing.assert_array_equal(g.cpu().numpy(), expected)
