"""Recurrent layers, cells and packed sequences beside torch's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn  # noqa: E402
from gradhook.nn.utils import rnn as packing  # noqa: E402

TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}
T, N, D, H = 5, 3, 4, 6
LENGTHS = [5, 5, 2]
their_packing = torch.nn.utils.rnn


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def pair(make):
    torch.manual_seed(0)
    theirs, ours = make(torch.nn).double(), make(nn).double()
    ours.load_state_dict({k: gradhook.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    return theirs, ours


def tensors_in(value):
    """The floating tensors of a result, in order."""
    if isinstance(value, tuple):
        return [t for v in value for t in tensors_in(v)]
    return [value] if value is not None and value.is_floating_point() else []


def compare(theirs, ours, call, arrays):
    """Results and the gradients of arrays and parameters of call(module, package, tensors)."""
    t_in = [torch.tensor(x, requires_grad=True) for x in arrays]
    g_in = [gradhook.tensor(x, requires_grad=True) for x in arrays]
    t_out = tensors_in(call(theirs, their_packing, t_in))
    g_out = tensors_in(call(ours, packing, g_in))
    assert [tuple(t.shape) for t in t_out] == [tuple(g.shape) for g in g_out]
    for t, g in zip(t_out, g_out, strict=True):
        np.testing.assert_allclose(g.detach().numpy(), t.detach().numpy(), **TOLERANCE)
    cotangents = [numbers(*t.shape, seed=7 + k) for k, t in enumerate(t_out)]
    torch.autograd.backward(t_out, [torch.tensor(c) for c in cotangents])
    gradhook.autograd.backward(g_out, [gradhook.tensor(c) for c in cotangents])
    for t, g in zip(t_in, g_in, strict=True):
        np.testing.assert_allclose(g.grad.numpy(), t.grad.numpy(), **TOLERANCE)
    if theirs is None:
        return
    for (name, t), (_, g) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        np.testing.assert_allclose(g.grad.numpy(), t.grad.numpy(), err_msg=name, **TOLERANCE)


KINDS = {
    "RNN": lambda n, **k: n.RNN(D, H, **k),
    "RNN relu": lambda n, **k: n.RNN(D, H, nonlinearity="relu", **k),
    "GRU": lambda n, **k: n.GRU(D, H, **k),
    "LSTM": lambda n, **k: n.LSTM(D, H, **k),
    "LSTM projected": lambda n, **k: n.LSTM(D, H, proj_size=2, **k),
}
FORMS = {
    "plain": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "both directions": {"bidirectional": True},
    "all": {"num_layers": 3, "bidirectional": True, "batch_first": True},
}


def first_states(kind, form, batch):
    layers = form.get("num_layers", 1) * (2 if form.get("bidirectional") else 1)
    sizes = {"LSTM": (H, H), "LSTM projected": (2, H)}.get(kind, (H,))
    return [numbers(layers, *batch, size, seed=3 + k) for k, size in enumerate(sizes)]


def state_of(kind, tensors):
    if not tensors:
        return None
    return tuple(tensors) if kind.startswith("LSTM") else tensors[0]


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_equal_torch_s(kind, form, given, batched):
    form = FORMS[form]
    batch = (N,) if batched else ()
    shape = (N, T, D) if batched and form.get("batch_first") else (T, *batch, D)
    states = first_states(kind, form, batch) if given else []
    compare(
        *pair(lambda n: KINDS[kind](n, **form)),
        lambda m, _, t: m(t[0], state_of(kind, t[1:])),
        [numbers(*shape), *states],
    )


@pytest.mark.parametrize("lengths", [LENGTHS, [2, 5, 3], [1, 1, 1]])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_over_packed_sequences_equal_torch_s(kind, form, given, lengths):
    form = FORMS[form]

    def call(module, package, tensors):
        pack = package.pack_padded_sequence(tensors[0], lengths, enforce_sorted=False)
        output, state = module(pack, state_of(kind, tensors[1:]))
        return package.pad_packed_sequence(output, batch_first=True), state

    states = first_states(kind, form, (N,)) if given else []
    compare(*pair(lambda n: KINDS[kind](n, **form)), call, [numbers(T, N, D), *states])


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["RNNCell", "RNNCell relu", "LSTMCell", "GRUCell"])
def test_cells_equal_torch_s(kind, bias, given, batched):
    name, _, nonlinearity = kind.partition(" ")
    form = {"nonlinearity": "relu"} if nonlinearity else {}
    batch = (N,) if batched else ()
    states = [numbers(*batch, H, seed=k) for k in range(2 if name == "LSTMCell" else 1)]
    compare(
        *pair(lambda n: getattr(n, name)(D, H, bias=bias, **form)),
        lambda m, _, t: m(t[0], state_of(name, t[1:])),
        [numbers(*batch, D, seed=9), *(states if given else [])],
    )


def test_dropout_acts_between_layers_in_training_only():
    theirs, ours = pair(lambda n: n.LSTM(D, H, 2, dropout=0.7))
    x = numbers(T, N, D)
    a = theirs.eval()(torch.tensor(x))[0].detach().numpy()
    b = ours.eval()(gradhook.tensor(x))[0].detach().numpy()
    np.testing.assert_allclose(b, a, **TOLERANCE)
    first, second = (ours.train()(gradhook.tensor(x))[0].detach().numpy() for _ in range(2))
    assert not np.allclose(first, second)
    full = copy.deepcopy(ours)
    full.dropout = 1.0  # nothing of layer 0 arrives: layer 1 sees zeros
    alone = nn.LSTM(H, H).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    alone.load_state_dict({f"{n}_l0": ours.state_dict()[f"{n}_l1"] for n in names})
    zeros = gradhook.zeros((T, N, H), dtype=gradhook.float64)
    found = full(gradhook.tensor(x))[0].detach().numpy()
    np.testing.assert_allclose(found, alone(zeros)[0].detach().numpy(), **TOLERANCE)


def test_second_derivatives_of_recurrent_layers_are_right():
    for make in (KINDS["LSTM projected"], KINDS["GRU"], KINDS["RNN"]):
        module = make(nn, bidirectional=True).double()
        x = gradhook.tensor(numbers(3, 2, D), requires_grad=True)
        assert gradhook.autograd.gradcheck(lambda x, m=module: m(x)[0], (x,))
        assert gradhook.autograd.gradgradcheck(lambda x, m=module: m(x)[0], (x,))


def test_recurrent_layers_are_copied_pickled_and_moved_with_their_weights():
    module = nn.LSTM(D, H, 2)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        x = gradhook.ones((T, N, D))
        assert twin(x)[0].tolist() == module(x)[0].tolist()
        assert [[p.shape for p in ps] for ps in twin.all_weights] == [
            [p.shape for p in ps] for ps in module.all_weights
        ]
    assert module.double().all_weights[0][0].dtype == gradhook.float64
    assert module.flatten_parameters() is None


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
def test_packing_and_padding_equal_torch_s(batch_first, rest):
    shape = (N, T, *rest) if batch_first else (T, N, *rest)

    def call(_, package, tensors):
        pack = package.pack_padded_sequence(tensors[0], [3, 4, 1], batch_first, False)
        again = package.pad_packed_sequence(pack, batch_first, -1.5, total_length=6)
        return pack.data, again[0]

    compare(None, None, call, [numbers(*shape)])
    t, g = torch.tensor(numbers(*shape)), gradhook.tensor(numbers(*shape))
    theirs = their_packing.pack_padded_sequence(t, [3, 4, 1], batch_first, False)
    ours = packing.pack_padded_sequence(g, [3, 4, 1], batch_first, False)
    for a, b in zip(theirs[1:], ours[1:], strict=True):
        assert b.tolist() == a.tolist() and str(b.dtype).split(".")[1] == str(a.dtype).split(".")[1]
    lengths = packing.pad_packed_sequence(ours)[1]
    assert lengths.tolist() == [3, 4, 1] and lengths.dtype == gradhook.int64


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pad_and_unpad_sequence_equal_torch_s(batch_first, side):
    arrays = [numbers(n, 2, seed=n) for n in (2, 4, 1)]

    def call(_, package, tensors):
        padded = package.pad_sequence(tensors, batch_first, 0.5, side)
        pack = package.pack_sequence(tensors, enforce_sorted=False)
        return padded, tuple(package.unpack_sequence(pack))

    compare(None, None, call, arrays)
    ours = [gradhook.tensor(a) for a in arrays]
    padded = packing.pad_sequence(ours, batch_first)
    back = packing.unpad_sequence(padded, gradhook.tensor([2, 4, 1]), batch_first)
    assert [b.tolist() for b in back] == [a.tolist() for a in arrays]
    assert padded.shape == ((3, 4, 2) if batch_first else (4, 3, 2))  # not transposed in place


def test_a_pack_is_a_named_tuple_that_casts():
    pack = packing.pack_sequence([gradhook.ones(3, 2), gradhook.ones(1, 2)])
    assert pack.to(dtype=gradhook.float32) is pack
    assert pack.double().data.dtype == gradhook.float64
    assert pack.double().batch_sizes.dtype == gradhook.int64
    assert not pack.cpu().is_cuda
    assert pack._fields == their_packing.PackedSequence._fields
    data, sizes, *_ = pack
    assert packing.PackedSequence((data, sizes)).batch_sizes is sizes


def test_hooks_of_a_recurrent_layer_see_its_outputs_and_states():
    module = nn.LSTM(D, H)
    seen = []
    handle = module.register_full_backward_hook(lambda m, gi, go: seen.append(go))
    pack = packing.pack_sequence([gradhook.ones(3, D), gradhook.ones(1, D)])
    output, (h, c) = module(pack)
    assert isinstance(output, packing.PackedSequence)
    (output.data.sum() + h.sum() + c.sum()).backward()
    shapes = [tuple(g.shape) for g in gradhook.nn.tree.flatten(seen[0])[0] if g is not None]
    assert shapes == [(4, H), (1, 2, H), (1, 2, H)]
    handle.remove()


def layer(n, kind="LSTM", **named):
    return getattr(n, kind)(D, H, **named)


def pack_of(n):
    return their_packing if n is torch.nn else packing


ERRORS = {
    "dropout range": lambda n, o: layer(n, dropout=2),
    "dropout bool": lambda n, o: layer(n, dropout=True),
    "bias": lambda n, o: layer(n, bias=1),
    "batch_first": lambda n, o: layer(n, batch_first="yes"),
    "input_size": lambda n, o: n.GRU(2.0, 3),
    "hidden_size": lambda n, o: n.GRU(2, 3.0),
    "input_size zero": lambda n, o: n.GRU(0, 3),
    "hidden_size zero": lambda n, o: n.GRU(2, 0),
    "num_layers": lambda n, o: n.GRU(2, 3, 0),
    "proj_size negative": lambda n, o: layer(n, proj_size=-1),
    "proj_size large": lambda n, o: layer(n, proj_size=H),
    "proj_size of GRU": lambda n, o: layer(n, "GRU", proj_size=1),
    "proj_size of RNN": lambda n, o: layer(n, "RNN", proj_size=1),
    "nonlinearity": lambda n, o: layer(n, "RNN", nonlinearity="gelu"),
    "mode": lambda n, o: n.RNNBase("QRNN", 2, 3),
    "input axes": lambda n, o: layer(n)(o(D)),
    "input axes of RNN": lambda n, o: layer(n, "RNN")(o(1, 1, 1, D)),
    "input size": lambda n, o: layer(n)(o(T, N, D + 1)),
    "dtype": lambda n, o: layer(n)(o(T, N, D).double()),
    "no steps": lambda n, o: layer(n)(o(0, N, D)),
    "state shape": lambda n, o: layer(n, "GRU")(o(T, N, D), o(1, N, H + 1)),
    "h shape": lambda n, o: layer(n)(o(T, N, D), (o(1, N, H + 1), o(1, N, H))),
    "c shape": lambda n, o: layer(n, proj_size=2)(o(T, N, D), (o(1, N, 2), o(1, N, 2))),
    "state axes": lambda n, o: layer(n, "GRU")(o(T, N, D), o(1, H)),
    "state axes unbatched": lambda n, o: layer(n, "RNN")(o(T, D), o(1, N, H)),
    "states axes": lambda n, o: layer(n)(o(T, N, D), (o(1, H), o(1, H))),
    "states axes unbatched": lambda n, o: layer(n)(o(T, D), (o(1, N, H), o(1, N, H))),
    "cell axes": lambda n, o: n.GRUCell(D, H)(o(1, 1, D)),
    "cell state axes": lambda n, o: n.RNNCell(D, H)(o(1, D), o(1, 1, H)),
    "LSTM cell state axes": lambda n, o: n.LSTMCell(D, H)(o(1, D), (o(1, H), o(1, 1, H))),
    "cell input size": lambda n, o: n.LSTMCell(D, H)(o(2, D + 1)),
    "cell batch": lambda n, o: n.GRUCell(D, H)(o(2, D), o(3, H)),
    "cell state size": lambda n, o: n.RNNCell(D, H)(o(2, D), o(2, H + 1)),
    "cell states": lambda n, o: n.LSTMCell(D, H)(o(2, D), (o(2, H),)),
    "cell state no tuple": lambda n, o: n.LSTMCell(D, H)(o(2, D), o(2, 2)),
    "cell nonlinearity": lambda n, o: n.RNNCell(D, H, nonlinearity="x")(o(2, D)),
    "lengths rise": lambda n, o: pack_of(n).pack_padded_sequence(o(T, N, D), [3, 5, 1]),
    "length zero": lambda n, o: pack_of(n).pack_padded_sequence(o(T, N, D), [3, 1, 0]),
    "number of lengths": lambda n, o: pack_of(n).pack_padded_sequence(o(T, N, D), [3, 1]),
    "nothing to pack": lambda n, o: pack_of(n).pack_padded_sequence(o(0, N, D), [3, 1, 1]),
    "total_length": lambda n, o: pack_of(n).pad_packed_sequence(
        pack_of(n).pack_padded_sequence(o(T, N, D), [4, 1, 1]), total_length=3
    ),
    "pad nothing": lambda n, o: pack_of(n).pad_sequence([]),
    "pad a number": lambda n, o: pack_of(n).pad_sequence(3),
    "pad numbers": lambda n, o: pack_of(n).pad_sequence([3]),
    "padding side": lambda n, o: pack_of(n).pad_sequence([o(2)], padding_side="x"),
    "pack of one": lambda n, o: pack_of(n).PackedSequence(o(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_calls_raise_torch_s_class_and_sentence(name):
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch.nn, torch.ones)
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[name](nn, gradhook.ones)
    text = str(ours.value).replace("gradhook.", "torch.")
    assert text.split("\n")[0].startswith(str(theirs.value).split("\n")[0])


def test_a_dropout_without_effect_warns_as_torch_does():
    for n in (torch.nn, nn):
        with pytest.warns(UserWarning, match="dropout option adds dropout after all but last") as w:
            layer(n, dropout=0.5)
        assert n is torch.nn or w[0].filename == __file__
