"""linear_cross_entropy in parts of the batch: the same values and gradients, less memory."""

import itertools

import numpy as np
import pytest

import gradhook
import gradhook.nn.functional as F
from gradhook import nn
from gradhook.nn import LinearCrossEntropyOptions as Options

BATCH, FEATURES, CLASSES = 7, 4, 6
CHOICES = [Options(), Options(batch_chunk_size=3), Options(chunking_method="aspect_ratio")]


def draw(*shape, seed=0, **options):
    values = np.random.default_rng(seed).standard_normal(shape)
    return gradhook.tensor(values, **options)


def operands(out=(), probabilities=False, dtype=gradhook.float64):
    leaves = [
        draw(BATCH, FEATURES, dtype=dtype, requires_grad=True),
        draw(CLASSES, *out, FEATURES, seed=1, dtype=dtype, requires_grad=True),
        draw(CLASSES, *out, seed=2, dtype=dtype, requires_grad=True),
    ]
    if probabilities:
        target = draw(BATCH, CLASSES, *out, seed=3, dtype=dtype).softmax(1)
    else:
        at = np.random.default_rng(3).integers(0, CLASSES, (BATCH, *out))
        at[2] = 1
        target = gradhook.tensor(at)
    return leaves, target


def value_and_gradients(leaves, target, **keywords):
    x, w, bias = leaves
    loss = F.linear_cross_entropy(x, w, target, linear_bias=bias, **keywords)
    seed = gradhook.ones_like(loss) * 0.5
    return [loss, *gradhook.autograd.grad(loss, leaves, seed)]


@pytest.mark.parametrize("options", CHOICES, ids=["auto", "rows", "ratio"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("out", [(), (2,)])
def test_parts_of_the_batch_give_what_the_whole_gives(options, reduction, probabilities, out):
    leaves, target = operands(out, probabilities)
    weight = gradhook.linspace(0.5, 2, CLASSES, dtype=gradhook.float64)
    for scale, smoothing in itertools.product((None, weight), (0.0, 0.1)):
        keywords = {"weight": scale, "label_smoothing": smoothing, "reduction": reduction}
        if not probabilities:
            keywords["ignore_index"] = 1
        expected = value_and_gradients(leaves, target, **keywords)
        found = value_and_gradients(leaves, target, **keywords, options=options)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy(), 1e-12)


def test_parts_can_be_differentiated_twice():
    leaves, target = operands()

    def loss(*leaves):
        x, w, bias = leaves
        return F.linear_cross_entropy(x, w, target, linear_bias=bias, options=CHOICES[1])

    assert gradhook.autograd.gradcheck(loss, leaves)
    assert gradhook.autograd.gradgradcheck(loss, leaves)


def test_scores_of_parts_are_not_kept_for_the_backward():
    leaves, target = operands()
    kept = []

    def pack(t):
        kept.append(t.shape)
        return t

    with gradhook.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        F.linear_cross_entropy(leaves[0], leaves[1], target, options=CHOICES[1])
    assert kept and all(CLASSES not in shape or FEATURES in shape for shape in kept)


def test_half_precision_is_computed_in_float32():
    dtype = gradhook.float16
    leaves, target = operands(dtype=dtype)
    wide = [t.detach().float().requires_grad_() for t in leaves]
    expected = value_and_gradients(wide, target)
    found = value_and_gradients(leaves, target, options=CHOICES[1])
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is dtype
        assert a.tolist() == b.to(dtype).tolist()


def test_the_module_takes_the_options_and_shows_them():
    gradhook.manual_seed(0)
    layer = nn.LinearCrossEntropyLoss(FEATURES, CLASSES, options=CHOICES[1])
    x, target = draw(BATCH, FEATURES, dtype=gradhook.float32), gradhook.tensor([1] * BATCH)
    found = layer(x, target)
    layer.options = None
    assert found.item() == pytest.approx(layer(x, target).item())
    layer.options = CHOICES[0]
    assert "options=LinearCrossEntropyOptions(allow_retain_graph=False," in repr(layer)


@pytest.mark.parametrize("shape", [(0, FEATURES), (FEATURES,)], ids=["no rows", "no batch"])
def test_options_change_nothing_where_there_is_nothing_to_cut(shape):
    x, w = draw(*shape), draw(CLASSES, FEATURES)
    target = gradhook.zeros(shape[:-1], dtype=gradhook.int64)
    found = [F.linear_cross_entropy(x, w, target, options=o, reduction="sum") for o in CHOICES]
    assert len({f.item() for f in found}) == 1


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"acc_policy": "exact"}, "invalid acc_policy: 'exact', expected one of auto"),
        ({"chunking_method": "ratio:2"}, "invalid chunking_method: 'ratio:2', expected"),
        ({"chunking_method": "aspect_ratio:0"}, "invalid chunking_method"),
        ({"batch_chunk_size": 0}, "batch_chunk_size must be positive int or None, got 0"),
        ({"acc_dtype": gradhook.int32}, "acc_dtype must be one of None, float16"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused(choice, text):
    with pytest.raises(ValueError, match=text):
        Options(**choice)


def test_choices_that_do_not_fit_the_call_are_refused():
    leaves, target = operands()
    with pytest.raises(ValueError, match="give different chunk sizes"):
        both = Options(batch_chunk_size=3, chunking_method="aspect_ratio")
        value_and_gradients(leaves, target, options=both)
    with pytest.raises(RuntimeError, match="supports float32 acc_dtype with float16/bfloat16"):
        value_and_gradients(leaves, target, options=Options(acc_dtype=gradhook.float32))
    with pytest.raises(ValueError, match="average is not a valid value for reduction"):
        value_and_gradients(leaves, target, options=CHOICES[1], reduction="average")
