"""docs/deviations.md, from row 46 on: modules, losses, functions."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.nn import functional as F


def leaf(*values: float) -> gradhook.Tensor:
    return gradhook.tensor(values, requires_grad=True)


@pytest.mark.parametrize(
    ("shape", "target", "smoothing"),
    [((2, 3), [0, 1], 0.0), ((2, 3), [0, 1], 0.1), ((2, 3, 2), [[0, 1], [1, 0]], 0.0)],
)
def test_46_cross_entropy_is_one_node_before_the_scores(shape, target, smoothing):
    x = gradhook.ones(shape, requires_grad=True) * 1
    loss = F.cross_entropy(x, gradhook.tensor(target), label_smoothing=smoothing)
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert loss.grad_fn.next_functions[0][0] is x.grad_fn


def test_47_a_class_weight_may_require_grad():
    x = gradhook.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0]], dtype=gradhook.float64)
    target, values = gradhook.tensor([0, 1]), [1.0, 2.0, 3.0]
    for loss in (F.cross_entropy, F.nll_loss, F.multi_margin_loss):
        weight = gradhook.tensor(values, dtype=gradhook.float64, requires_grad=True)
        assert autograd.gradcheck(lambda w, loss=loss: loss(x, target, weight=w), weight)


def test_48_transformers_do_not_read_masks_and_padding_has_values():
    layer, hints = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), []
    encoder = nn.TransformerEncoder(layer, 1).eval()
    encoder.layers[0].register_forward_pre_hook(
        lambda m, args, kwargs: hints.append(kwargs["is_causal"]), with_kwargs=True
    )
    x = gradhook.ones(1, 3, 4)
    encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(3))
    with gradhook.no_grad():
        y = encoder(x, src_key_padding_mask=gradhook.tensor([[False, False, True]]))
    assert hints[0] is False and bool((y[0, 2] != 0).any())


OUTSIDE = {
    "a label": lambda x: F.cross_entropy(x, gradhook.tensor([5])),
    "a variance": lambda x: F.gaussian_nll_loss(x, x, -x),
    "an index": lambda x: F.max_unpool1d(x, gradhook.tensor([[0, 1, 99]]), 2),
    "an offset": lambda x: F.embedding_bag(gradhook.tensor([0, 0]), x, gradhook.tensor([1])),
    "a singular matrix": lambda x: gradhook.linalg.inv(x.t() @ x),
    "a probability": lambda x: gradhook.bernoulli(x * 2),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_50_values_are_checked_on_the_cpu_only(what):
    x = gradhook.ones(1, 3)
    error = pytest.raises((IndexError, ValueError, RuntimeError))
    with nullcontext() if x.is_cuda else error:
        OUTSIDE[what](x)


def test_51_a_triangle_that_cholesky_solve_does_not_read_has_no_gradient():
    factor = gradhook.tensor([[2.0, 7.0], [1.0, 3.0]], requires_grad=True)
    gradhook.cholesky_solve(gradhook.ones(2, 1), factor).sum().backward()
    assert factor.grad[0, 1].item() == 0 and factor.grad[1, 0].item() != 0


@pytest.mark.parametrize(
    "vectors", [lambda m: gradhook.linalg.svd(m)[0], lambda m: gradhook.linalg.eig(m)[1]]
)
def test_52_a_loss_of_the_phase_of_vectors_is_taken_as_it_is(vectors):
    m = gradhook.tensor([[1 + 1j, 2], [3, 4]], dtype=gradhook.complex128, requires_grad=True)
    vectors(m).real.sum().backward()
    assert bool(m.grad.isfinite().all())


def test_53_bessel_functions_of_infinity_are_infinite():
    x = gradhook.tensor([math.inf, -math.inf])
    assert gradhook.special.i0(x).tolist() == [math.inf] * 2
    assert gradhook.special.i1(x).tolist() == [math.inf, -math.inf]


def test_54_a_fourier_transform_of_an_empty_batch_is_empty():
    assert gradhook.fft.fft(gradhook.zeros(0, 3)).shape == (0, 3)


def test_55_what_as_strided_scatter_writes_over_has_no_gradient():
    x, source = leaf(0.0, 1.0, 2.0, 3.0), leaf(8.0, 9.0)
    y = gradhook.as_strided_scatter(x, source, (2,), (2,))
    (y * gradhook.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert y.tolist() == [8, 1, 9, 3]
    assert (x.grad.tolist(), source.grad.tolist()) == ([0, 2, 0, 4], [1, 3])


def test_56_masked_logsumexp_of_whole_numbers_is_floating():
    mask = gradhook.tensor([True, False, True])
    found = gradhook.masked.logsumexp(gradhook.tensor([1, 2, 3]), 0, mask=mask)
    assert found.item() == pytest.approx(math.log(math.exp(1) + math.exp(3)))


def ldl_solved(b):
    matrix = gradhook.tensor([[3.0, 1.0], [1.0, -2.0]], dtype=b.dtype)
    return gradhook.linalg.ldl_solve(*gradhook.linalg.ldl_factor(matrix), b)


LONGER = {
    "ctc_loss": (
        lambda x: F.ctc_loss(x.log_softmax(-1), gradhook.tensor([[1, 2]]), [4], [2]), (4, 1, 3)
    ),
    "pdist": (gradhook.pdist, (3, 2)),
    "ldl_solve": (ldl_solved, (2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", LONGER)
def test_60_ctc_loss_pdist_and_ldl_solve_have_more_derivatives(name):
    fn, shape = LONGER[name]
    x = gradhook.linspace(0, 1, math.prod(shape), dtype=gradhook.float64).sin().reshape(shape)
    x = (x * x).requires_grad_()
    assert autograd.gradcheck(fn, x) and autograd.gradgradcheck(fn, x)


@pytest.mark.parametrize("name", ["eq_", "logical_and_", "heaviside_"])
def test_61_what_a_comparison_overwrites_has_no_gradient(name):
    x = leaf(1.0, 2.0)
    y = x * 3
    getattr(y, name)(gradhook.tensor([3.0, 5.0]))
    (y * 2).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_62_masked_variances_of_complex_numbers_are_real():
    x = gradhook.tensor([1 + 1j, 3 - 1j, 9j])
    mask = gradhook.tensor([True, True, False])
    assert gradhook.masked.var(x, 0, mask=mask, unbiased=False).item() == 2
    assert gradhook.masked.std(x, 0, mask=mask, unbiased=False).dtype is gradhook.float32


def test_63_a_conjugate_is_memory_of_its_own():
    x = gradhook.tensor([[1 + 1j]])
    for y in (x.conj(), x.H, x.mH, x.adjoint()):
        y.zero_()
    assert x.tolist() == [[1 + 1j]]


def test_64_addbmm_does_not_resize_its_target():
    with pytest.raises(RuntimeError, match="shape"):
        gradhook.ones(2).addbmm_(gradhook.ones(1, 2, 2), gradhook.ones(1, 2, 2))
