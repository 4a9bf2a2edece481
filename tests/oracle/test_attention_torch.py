"""Attention and transformers beside torch's: outputs, weights, every gradient, masks and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn  # noqa: E402

# torch advises batch_first for a fast path that gradhook does not have
ADVICE = "ignore:enable_nested_tensor is True"
TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def pair(make):
    """torch's module and ours in float64, with torch's weights."""
    torch.manual_seed(0)
    theirs = make(torch.nn).double()
    ours = make(nn).double()
    with torch.no_grad():
        for p in theirs.parameters():  # zero biases would hide a wrong one
            p.add_(torch.randn(p.shape, dtype=p.dtype) * 0.1)
    ours.load_state_dict({k: gradhook.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert repr(ours) == repr(theirs)
    return theirs, ours


def both(values):
    """The keyword arguments of a call for torch and for ours: arrays become tensors."""
    return [
        {k: f(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
        for f in (torch.tensor, gradhook.tensor)
    ]


def outputs_of(found):
    return [t for t in (found if isinstance(found, tuple) else (found,)) if t is not None]


def compare(theirs, ours, inputs, **named):
    """Outputs and the gradients of all inputs and parameters of one call."""
    same = {}
    t_in = [same.setdefault(id(x), torch.tensor(x, requires_grad=True)) for x in inputs]
    same = {}
    g_in = [same.setdefault(id(x), gradhook.tensor(x, requires_grad=True)) for x in inputs]
    t_named, g_named = both(named)
    t_out, g_out = outputs_of(theirs(*t_in, **t_named)), outputs_of(ours(*g_in, **g_named))
    assert len(t_out) == len(g_out)
    for t, g in zip(t_out, g_out, strict=True):
        np.testing.assert_allclose(g.detach().numpy(), t.detach().numpy(), **TOLERANCE)
    cotangents = [numbers(*t.shape, seed=7 + k) for k, t in enumerate(t_out)]
    torch.autograd.backward(t_out, [torch.tensor(c) for c in cotangents])
    gradhook.autograd.backward(g_out, [gradhook.tensor(c) for c in cotangents])
    for t, g in zip(t_in, g_in, strict=True):
        np.testing.assert_allclose(g.grad.numpy(), t.grad.numpy(), **TOLERANCE)
    for (name, t), (_, g) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        np.testing.assert_allclose(g.grad.numpy(), t.grad.numpy(), err_msg=name, **TOLERANCE)


L, S, N, E, H = 4, 5, 3, 6, 2
CAUSAL = np.triu(np.ones((L, L), bool), 1)
PADDING = np.arange(S)[None, :] >= np.array([5, 3, 4])[:, None]
MODULES = {
    "packed": {},
    "no bias": {"bias": False},
    "learnt last position": {"add_bias_kv": True},
    "zeros at the end": {"add_zero_attn": True},
    "both ends": {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
    "other sizes": {"kdim": 7, "vdim": 2},
    "other sizes, no bias": {"kdim": 7, "vdim": 6, "bias": False, "add_bias_kv": True},
}
MASKS = {
    "none": {},
    "bool padding": {"key_padding_mask": PADDING},
    "added padding": {"key_padding_mask": numbers(N, S, seed=3)},
    "bool": {"attn_mask": np.triu(np.ones((L, S), bool), 2)},
    "added": {"attn_mask": numbers(L, S, seed=4)},
    "added per head": {"attn_mask": numbers(N * H, L, S, seed=4)},
    "both": {"attn_mask": np.triu(np.ones((L, S), bool), 2), "key_padding_mask": PADDING},
    "both added": {
        "attn_mask": numbers(N * H, L, S, seed=4),
        "key_padding_mask": numbers(N, S, seed=3),
    },
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("weights", ["averaged", "per head", "none"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("form", MODULES)
def test_multihead_attention_equals_torch_s(form, masks, weights, batch_first):
    arguments = {**MODULES[form], "batch_first": batch_first}
    theirs, ours = pair(lambda n: n.MultiheadAttention(E, H, **arguments))
    sizes = (E, arguments.get("kdim", E), arguments.get("vdim", E))
    inputs = [
        numbers(*((N, length, size) if batch_first else (length, N, size)), seed=k)
        for k, (length, size) in enumerate(zip((L, S, S), sizes, strict=True))
    ]
    options = {"need_weights": weights != "none", "average_attn_weights": weights == "averaged"}
    compare(theirs, ours, inputs, **MASKS[masks], **options)


@pytest.mark.parametrize("which", ["self", "key is value", "all different"])
@pytest.mark.parametrize("batch", [(), (N,)])
@pytest.mark.parametrize("training", [True, False])
def test_attention_of_a_tensor_to_itself_and_without_a_batch_equals_torch_s(which, batch, training):
    theirs, ours = (m.train(training) for m in pair(lambda n: n.MultiheadAttention(E, H)))
    x, y, z = (numbers(L, *batch, E, seed=k) for k in range(3))
    inputs = {"self": [x, x, x], "key is value": [x, y, y], "all different": [x, y, z]}[which]
    compare(theirs, ours, inputs)
    mask = numbers(L, L, seed=5)
    compare(*pair(lambda n: n.MultiheadAttention(E, H)), inputs, attn_mask=mask, need_weights=False)


@pytest.mark.parametrize("batch", [(), (N,)])
def test_the_causal_hint_gives_what_the_causal_mask_gives(batch):
    x = numbers(L, *batch, E)
    make = lambda n: n.MultiheadAttention(E, H)  # noqa: E731
    for need_weights in (False, True):
        options = {"attn_mask": CAUSAL, "is_causal": True, "need_weights": need_weights}
        compare(*pair(make), [x, x, x], **options)


def test_rows_that_see_no_key_are_torch_s_in_value_and_gradient():
    padding = np.zeros((N, S), bool)
    padding[1] = True
    theirs, ours = pair(lambda n: n.MultiheadAttention(E, H))
    inputs = [numbers(L, N, E), numbers(S, N, E, seed=1), numbers(S, N, E, seed=2)]
    compare(theirs, ours, inputs, key_padding_mask=padding, need_weights=False)
    query, key, value = (gradhook.tensor(x) for x in inputs)
    found, weights = ours(query, key, value, key_padding_mask=gradhook.tensor(padding))
    assert weights.isnan()[1].all() and found.isnan()[:, 1].all()
    assert not found.isnan()[:, 0].any()


def test_static_keys_and_values_take_the_places_of_the_projected_ones():
    found = []
    for n, t in ((torch, torch.tensor), (gradhook, gradhook.tensor)):
        x = t(numbers(L, N, E))
        static = [t(numbers(N * H, S, E // H, seed=k)) for k in (1, 2)]
        weights = [t(numbers(*s, seed=3)) for s in ((3 * E, E), (3 * E,), (E, E), (E,))]
        output, seen = n.nn.functional.multi_head_attention_forward(
            x, x, x, E, H, weights[0], weights[1], None, None, False, 0.0, weights[2], weights[3],
            static_k=static[0], static_v=static[1],
        )  # fmt: skip
        found.append((output.numpy(), seen.numpy()))
    np.testing.assert_allclose(found[1][0], found[0][0], **TOLERANCE)
    np.testing.assert_allclose(found[1][1], found[0][1], **TOLERANCE)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("form", [{}, {"bias": False}, {"activation": "gelu"}, {"nhead": 3}])
def test_encoder_and_decoder_layers_equal_torch_s(batch_first, norm_first, form):
    rest = {k: v for k, v in form.items() if k != "nhead"}
    arguments = {"dropout": 0.0, "batch_first": batch_first, "norm_first": norm_first, **rest}
    heads = form.get("nhead", H)
    x, memory = numbers(L, N, E), numbers(S, N, E, seed=1)
    if batch_first:
        x, memory = x.swapaxes(0, 1).copy(), memory.swapaxes(0, 1).copy()
    encoder = pair(lambda n: n.TransformerEncoderLayer(E, heads, 8, **arguments))
    compare(*encoder, [x], src_mask=CAUSAL, src_key_padding_mask=PADDING[:, :L])
    decoder = pair(lambda n: n.TransformerDecoderLayer(E, heads, 8, **arguments))
    masks = {"tgt_mask": CAUSAL, "tgt_is_causal": True, "memory_key_padding_mask": PADDING}
    compare(*decoder, [x, memory], **masks)


@pytest.mark.parametrize("training", [True, False])
def test_an_activation_may_be_a_module_or_any_function(training):
    def make(n, activation):
        return n.TransformerEncoderLayer(E, H, 8, dropout=0.0, activation=activation)

    compare(*(m.train(training) for m in pair(lambda n: make(n, n.GELU()))), [numbers(L, E)])
    compare(*(m.train(training) for m in pair(lambda n: make(n, lambda x: x * x))), [numbers(L, E)])


@pytest.mark.filterwarnings(ADVICE)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masks", ["none", "causal", "padding", "float"])
def test_transformers_equal_torch_s(batch_first, masks):
    def make(n):
        return n.Transformer(E, H, 2, 2, 8, dropout=0.0, batch_first=batch_first)

    src, tgt = numbers(S, N, E), numbers(L, N, E, seed=1)
    if batch_first:
        src, tgt = src.swapaxes(0, 1).copy(), tgt.swapaxes(0, 1).copy()
    named = {
        "none": {},
        "causal": {"tgt_mask": CAUSAL},
        "padding": {"src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING},
        "float": {"tgt_mask": np.where(CAUSAL, -math.inf, 0.0), "memory_mask": numbers(L, S)},
    }[masks]
    compare(*pair(make), [src, tgt], **named)


@pytest.mark.filterwarnings(ADVICE)
def test_transformers_without_a_batch_and_with_custom_parts_equal_torch_s():
    compare(
        *pair(lambda n: n.Transformer(E, H, 1, 1, 8, dropout=0.0)),
        [numbers(S, E), numbers(L, E, seed=1)],
    )

    def custom(n):
        layer = n.TransformerEncoderLayer(E, H, 8, dropout=0.0, norm_first=True)
        encoder = n.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        return n.Transformer(E, H, 1, 2, 8, dropout=0.0, custom_encoder=encoder, bias=False)

    compare(*pair(custom), [numbers(S, N, E), numbers(L, N, E, seed=1)])


def test_the_square_subsequent_mask_is_torch_s():
    for dtype in ("float32", "float64"):
        theirs = torch.nn.Transformer.generate_square_subsequent_mask(
            4, dtype=getattr(torch, dtype)
        )
        ours = nn.Transformer.generate_square_subsequent_mask(4, dtype=getattr(gradhook, dtype))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        assert ours.numpy().dtype == theirs.numpy().dtype


def test_first_weights_of_attention_have_torch_s_distribution():
    torch.manual_seed(0)
    gradhook.manual_seed(0)
    for form in ({"add_bias_kv": True}, {"kdim": 30, "vdim": 50}):
        theirs = torch.nn.MultiheadAttention(200, 4, **form)
        ours = nn.MultiheadAttention(200, 4, **form)
        for (k, p), (_, q) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
            a, b = p.detach().numpy(), q.detach().numpy()
            assert b.std() == pytest.approx(a.std(), rel=0.25, abs=1e-12), k
            assert abs(b).max() == pytest.approx(abs(a).max(), rel=0.3, abs=1e-12), k


def attention(n, **named):
    return n.MultiheadAttention(E, H, **named)


ERRORS = {
    "embed_dim zero": lambda n, o: n.MultiheadAttention(0, 1),
    "not divisible": lambda n, o: n.MultiheadAttention(5, 2),
    "one axis": lambda n, o: attention(n)(o(E), o(E), o(E)),
    "key without batch": lambda n, o: attention(n)(o(L, N, E), o(S, E), o(S, E)),
    "key with batch": lambda n, o: attention(n)(o(L, E), o(S, N, E), o(S, N, E)),
    "padding axes": lambda n, o: attention(n)(*[o(L, N, E)] * 3, key_padding_mask=o(L)),
    "mask axes": lambda n, o: attention(n)(*[o(L, N, E)] * 3, attn_mask=o(L)),
    "unbatched padding axes": lambda n, o: attention(n)(*[o(L, E)] * 3, key_padding_mask=o(1, L)),
    "unbatched mask axes": lambda n, o: attention(n)(*[o(L, E)] * 3, attn_mask=o(L)),
    "unbatched mask shape": lambda n, o: attention(n)(*[o(L, E)] * 3, attn_mask=o(3, L, L)),
    "mask shape": lambda n, o: attention(n)(*[o(L, N, E)] * 3, attn_mask=o(L, L + 1)),
    "mask shape per head": lambda n, o: attention(n)(*[o(L, N, E)] * 3, attn_mask=o(N, L, L)),
    "padding batch": lambda n, o: attention(n)(*[o(L, N, E)] * 3, key_padding_mask=o(N + 1, L)),
    "padding length": lambda n, o: attention(n)(*[o(L, N, E)] * 3, key_padding_mask=o(N, L + 1)),
    "mask of integers": lambda n, o: attention(n)(*[o(L, N, E)] * 3, attn_mask=o(L, L).long()),
    "causal without mask": lambda n, o: attention(n)(*[o(L, N, E)] * 3, is_causal=True),
    "features": lambda n, o: attention(n)(*[o(L, N, E + 1)] * 3),
    "key and value": lambda n, o: attention(n)(o(L, N, E), o(S, N, E), o(L, N, E)),
    "key size": lambda n, o: attention(n, kdim=7)(o(L, N, E), o(S, N, E), o(S, N, E)),
    "key and value lengths": lambda n, o: attention(n, kdim=7)(o(L, N, E), o(S, N, 7), o(L, N, E)),
    "activation": lambda n, o: n.TransformerEncoderLayer(E, H, activation="tanh"),
    "batches": lambda n, o: n.Transformer(E, H, 1, 1, 8, batch_first=True)(o(2, L, E), o(3, L, E)),
    "features of src": lambda n, o: n.Transformer(E, H, 1, 1, 8, batch_first=True)(
        o(2, L, 4), o(2, L, E)
    ),
    "layer mask of integers": lambda n, o: n.TransformerEncoderLayer(E, H, 8)(
        o(L, N, E), src_mask=o(L, L).long()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_calls_raise_torch_s_class_and_sentence(name):
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch.nn, torch.ones)
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[name](nn, gradhook.ones)
    text = str(ours.value).replace("gradhook.", "torch.")
    assert text.split("\n")[0].startswith(str(theirs.value).split("\n")[0])


def test_masks_of_two_dtypes_warn_as_torch_does():
    for n, o in ((torch.nn, torch.zeros), (nn, gradhook.zeros)):
        masks = {"key_padding_mask": o(N, L).bool(), "attn_mask": o(L, L)}
        with pytest.warns(
            UserWarning, match="Support for mismatched key_padding_mask and attn_mas"
        ):
            attention(n)(*[o(L, N, E)] * 3, **masks)
