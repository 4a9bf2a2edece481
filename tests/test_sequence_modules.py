"""Attention, transformers and recurrent layers without torch: by hand, by finite differences, and
by what must hold. PyTorch's numbers are in tests/oracle.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
import gradhook.nn.functional as F
from gradhook import nn
from gradhook.nn.utils import rnn as packing


def double(*shape, seed=0):
    return gradhook.tensor(np.random.default_rng(seed).standard_normal(shape))


def values(t):
    return t.detach().cpu().numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_by_hand(module, x, h, c):
    """The outputs of a one-layer LSTM over x: (length, size), step by step."""
    w, u, b, d = (values(p) for p in module.all_weights[0])
    found = []
    for row in x:
        i, f, g, o = np.split(w @ row + b + u @ h + d, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.array(found), h, c


def test_an_lstm_is_its_equations():
    module = nn.LSTM(3, 4).double()
    x = double(5, 3)
    output, (h, c) = module(x)
    expected = lstm_by_hand(module, values(x), np.zeros(4), np.zeros(4))
    for found, wanted in zip((output, h[0], c[0]), expected, strict=True):
        np.testing.assert_allclose(values(found), wanted, rtol=1e-12)


def test_a_gru_cell_is_its_equations():
    cell = nn.GRUCell(3, 4).double()
    x, h = double(3), double(4, seed=1)
    w, u, b, d = (values(p) for p in cell.parameters())
    xs, hs = np.split(w @ values(x) + b, 3), np.split(u @ values(h) + d, 3)
    reset, update = sigmoid(xs[0] + hs[0]), sigmoid(xs[1] + hs[1])
    new = np.tanh(xs[2] + reset * hs[2])
    expected = (1 - update) * new + update * values(h)
    np.testing.assert_allclose(values(cell(x, h)), expected, rtol=1e-12)


def test_one_head_of_attention_is_its_equations():
    module = nn.MultiheadAttention(3, 1).double()
    q, k, v = double(2, 3), double(4, 3, seed=1), double(4, 3, seed=2)
    w, b = values(module.in_proj_weight), values(module.in_proj_bias)
    parts = [
        values(t) @ w[3 * n : 3 * n + 3].T + b[3 * n : 3 * n + 3] for n, t in enumerate((q, k, v))
    ]
    powers = np.exp(parts[0] @ parts[1].T / np.sqrt(3))
    expected = powers / powers.sum(axis=1, keepdims=True)
    found, weights = module(q, k, v)
    np.testing.assert_allclose(values(weights), expected, rtol=1e-12)
    out = expected @ parts[2] @ values(module.out_proj.weight).T + values(module.out_proj.bias)
    np.testing.assert_allclose(values(found), out, rtol=1e-12)


MODULES = {
    "attention": (lambda: nn.MultiheadAttention(4, 2), lambda m, x: m(x, x, x)),
    "attention without weights": (
        lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True),
        lambda m, x: m(x, x, x, need_weights=False)[0],
    ),
    "transformer": (
        lambda: nn.Transformer(4, 2, 1, 1, 6, dropout=0.0, activation="gelu"),
        lambda m, x: m(x, x * x),
    ),
    "RNN": (lambda: nn.RNN(4, 3, 2), lambda m, x: m(x)),
    "LSTM": (lambda: nn.LSTM(4, 3, bidirectional=True, proj_size=2), lambda m, x: m(x)[0]),
    "GRU": (lambda: nn.GRU(4, 3, bidirectional=True, batch_first=True), lambda m, x: m(x)),
    "LSTM cell": (lambda: nn.LSTMCell(4, 3), lambda m, x: m(x[0])),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_sequence_modules_are_those_of_finite_differences(name):
    """Along one random direction of the input and all parameters at once."""
    make, call = MODULES[name]
    module = make().double()
    x = double(3, 2, 4).requires_grad_()
    leaves = [x, *module.parameters()]
    directions = [double(*t.shape, seed=20 + k) for k, t in enumerate(leaves)]

    def loss():
        found = gradhook.nn.tree.flatten(call(module, x))[0]
        return sum((t * double(*t.shape, seed=50 + k)).sum() for k, t in enumerate(found))

    def moved(by):
        with gradhook.no_grad():
            for t, d in zip(leaves, directions, strict=True):
                t.add_(d * by)
            return loss().item()

    loss().backward()
    slope = sum((t.grad * d).sum().item() for t, d in zip(leaves, directions, strict=True))
    ahead = moved(1e-6)
    assert slope == pytest.approx((ahead - moved(-2e-6)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("make", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_packed_sequence_gives_what_it_gives_alone(make, bidirectional):
    module = make(3, 4, 2, bidirectional=bidirectional).double()
    sequences = [double(n, 3, seed=n) for n in (2, 5, 1, 3)]
    output, state = module(packing.pack_sequence(sequences, enforce_sorted=False))
    together = packing.unpack_sequence(output)
    for k, sequence in enumerate(sequences):
        alone, alone_state = module(sequence)
        np.testing.assert_allclose(values(together[k]), values(alone), rtol=1e-12)
        states = (state, alone_state) if isinstance(state, tuple) else ((state,), (alone_state,))
        for a, b in zip(*states, strict=True):
            np.testing.assert_allclose(values(a[:, k]), values(b), rtol=1e-12)


def test_a_causal_decoder_does_not_see_what_comes_later():
    gradhook.manual_seed(0)
    layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=gradhook.float64)
    x, memory = double(2, 5, 4).requires_grad_(), double(2, 3, 4, seed=1)
    # the last op is a layer_norm: the plain sum of its result has no gradient
    layer(x, memory, tgt_mask=mask)[:, 2, 0].sum().backward()
    seen = values(x.grad).any(axis=(0, 2)).tolist()
    assert seen == [True, True, True, False, False]


def test_padded_keys_get_no_gradient_and_change_nothing():
    module = nn.MultiheadAttention(4, 2, batch_first=True).double()
    query, key = double(2, 3, 4), double(2, 5, 4, seed=1).requires_grad_()
    padding = gradhook.tensor([[False] * 5, [False, False, True, True, True]])
    found, _ = module(query, key, key, key_padding_mask=padding)
    found.sum().backward()
    assert values(key.grad).any(axis=2).tolist() == [[True] * 5, [True, True] + [False] * 3]
    short, _ = module(query[1:], key[1:, :2], key[1:, :2])
    np.testing.assert_allclose(values(found[1:]), values(short), rtol=1e-12)


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_a_query_that_sees_nothing_gives_zeros_and_finite_gradients(kind):
    q, k, v = (double(3, 4, seed=n).requires_grad_() for n in range(3))
    mask = gradhook.tensor([[True] * 3, [False] * 3, [True, False, True]])
    if kind == "added":
        mask = gradhook.zeros(3, 3, dtype=gradhook.float64).masked_fill(~mask, -float("inf"))
    found = F.scaled_dot_product_attention(q, k, v, mask)
    assert found[1].tolist() == [0.0] * 4
    found.sum().backward()
    assert all(np.isfinite(values(t.grad)).all() for t in (q, k, v))
    assert not values(q.grad)[1].any()


def test_dropout_of_attention_acts_in_training_only():
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5)
    x = gradhook.ones(3, 2, 4)
    assert layer(x).tolist() != layer(x).tolist()
    layer.eval()
    assert layer(x).tolist() == layer(x).tolist()


def test_unpad_sequence_leaves_its_input_as_it_is():
    padded = gradhook.ones(4, 2, 3)
    first, second = packing.unpad_sequence(padded, gradhook.tensor([4, 1]))
    assert (first.shape, second.shape, padded.shape) == ((4, 3), (1, 3), (4, 2, 3))
    second.zero_()
    assert padded.sum().item() == 24.0


def test_errors_of_packing_name_what_was_found():
    with pytest.raises(RuntimeError, match="longest length is 6, but input has 5 steps"):
        packing.pack_padded_sequence(gradhook.ones(5, 2), [6, 1])
    with pytest.raises(RuntimeError, match=r"found \[2\], expected \[3\] as in the first"):
        packing.pad_sequence([gradhook.ones(2, 3), gradhook.ones(2, 2)])
    with pytest.raises(RuntimeError, match="sequence 0 has no length"):
        packing.pad_sequence([gradhook.tensor(1.0)])
    with pytest.raises(IndexError, match="at least 2 dimensions, found 1"):
        packing.pack_padded_sequence(gradhook.ones(5), [5])
    with pytest.raises(RuntimeError, match="should be a 1D CPU int64 tensor, but got 2D cpu"):
        lengths = gradhook.ones(1, 2, dtype=gradhook.int64, device="cpu")
        packing.pack_padded_sequence(gradhook.ones(5, 2), lengths)
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        nn.GRU(2, 3, depth=2)


def test_modules_are_at_pytorch_s_import_paths():
    from gradhook.nn.modules.activation import MultiheadAttention
    from gradhook.nn.modules.linear import NonDynamicallyQuantizableLinear
    from gradhook.nn.modules.rnn import RNNBase, RNNCellBase
    from gradhook.nn.modules.transformer import TransformerEncoderLayer

    assert MultiheadAttention is nn.MultiheadAttention
    assert TransformerEncoderLayer is nn.TransformerEncoderLayer
    assert issubclass(nn.LSTM, RNNBase) and issubclass(nn.GRUCell, RNNCellBase)
    assert type(nn.MultiheadAttention(2, 1).out_proj) is NonDynamicallyQuantizableLinear
