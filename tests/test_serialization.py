"""save and load: what comes back, where to, and what a file of weights may name."""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

import gradhook
from gradhook import nn, optim
from gradhook.serialization import LoadError

called = []


class Marked(gradhook.Tensor):
    """A class of tensors of the user's."""


class Runs:
    """Pickles to a call."""

    def __reduce__(self):
        return called.append, (1,)


def round_trip(value, **options):
    file = io.BytesIO()
    gradhook.save(value, file)
    file.seek(0)
    return gradhook.load(file, **options)


@pytest.mark.parametrize(
    "dtype", ["bool", "int64", "uint8", "float16", "float32", "float64", "complex64"]
)
def test_tensors_of_every_dtype_come_back_in_any_structure(dtype):
    t = gradhook.ones(2, 3).to(getattr(gradhook, dtype))
    value = {"t": (t, [t.T, None]), "n": 3.5, "shape": t.shape, "dtype": t.dtype, "d": t.device}
    back = round_trip(value)
    assert back["t"][0].dtype is t.dtype and back["t"][0].tolist() == t.tolist()
    assert back["t"][1][0].tolist() == t.T.tolist() and back["n"] == 3.5
    assert (back["shape"], back["dtype"], back["d"]) == (t.shape, t.dtype, t.device)


def test_a_state_dict_comes_back_with_its_metadata_from_a_path(tmp_path):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.LazyLinear(1))
    for path in (tmp_path / "a", str(tmp_path / "b")):
        gradhook.save(model.state_dict(), path)
        state = gradhook.load(path)
        assert type(state) is OrderedDict and state._metadata["0"] == {"version": 2}
        assert model.load_state_dict(state) == ([], [])


def test_parameters_keep_their_class_and_whether_they_require_grad():
    back = round_trip([nn.Parameter(gradhook.ones(1)), nn.Buffer(gradhook.ones(1))])
    assert [type(t) for t in back] == [nn.Parameter, nn.Buffer]
    assert [t.requires_grad for t in back] == [True, False] and back[1].persistent


@pytest.mark.cpu_only(reason="device tensors come back over copies")
def test_a_tied_weight_comes_back_tied():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    state = round_trip(model.state_dict())
    state["0.weight"].fill_(5.0)
    assert state["1.weight"].tolist() == [[5, 5], [5, 5]]
    twin = round_trip(model, weights_only=False)
    assert twin[1].weight is twin[0].weight


def test_an_optimizer_s_state_resumes_from_a_file():
    p = nn.Parameter(gradhook.ones(2))
    p.grad = gradhook.ones(2)
    opt = optim.Adam([p])
    opt.step()
    other = optim.Adam([nn.Parameter(gradhook.ones(2))])
    other.load_state_dict(round_trip(opt.state_dict()))
    assert other.state_dict()["state"][0]["step"].item() == 1


def test_a_module_needs_trust_and_brings_its_hooks_along():
    model = nn.Linear(1, 1)
    model.register_forward_hook(pickle.dumps)
    model.register_load_state_dict_post_hook(pickle.loads)
    with pytest.raises(pickle.UnpicklingError, match=r"gradhook\.nn\.linear\.Linear.*weights_only"):
        round_trip(model)
    twin = round_trip(model, weights_only=False)
    assert [h.hook for h in twin.hooks()] == [pickle.dumps, pickle.loads]


@pytest.mark.parametrize("value", [Runs(), {"a": [Runs()]}, print, gradhook.ones, eval])
def test_a_file_of_weights_runs_nothing(value):
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed: the file names"):
        round_trip(value)
    assert called == []


def test_map_location_says_where_tensors_go():
    t = gradhook.ones(2)
    here = str(t.device)
    for where in ("cpu", gradhook.device("cpu"), {here: "cpu"}, lambda device: "cpu"):
        assert round_trip([t], map_location=where)[0].device == gradhook.device("cpu")
    asked = []
    back = round_trip([t], map_location=lambda device: asked.append(device))
    assert asked == [here] and back[0].device == t.device


def test_what_cannot_be_saved_leaves_an_older_file_as_it_was(tmp_path):
    path = tmp_path / "a.pt"
    gradhook.save([1], path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        gradhook.save([gradhook.ones(1), lambda: None], path)
    assert gradhook.load(path) == [1]


@pytest.mark.parametrize("copied", [round_trip, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_tensor_with_history_is_a_leaf_after_it_was_saved(copied):
    back = copied(gradhook.ones(2, requires_grad=True) * 2)
    assert back.is_leaf and back.requires_grad and back.tolist() == [2.0, 2.0]


def test_map_location_may_be_a_function_of_pytorch_s():
    t = gradhook.ones(2)
    here, asked = str(t.device), []

    def stays(storage, location):
        asked.append((storage.nbytes, location))
        return storage

    with pytest.raises(RuntimeError, match="device type at start of device string: tpu"):
        round_trip([t], map_location={here: "tpu"})
    for answer in (stays, lambda storage, location: None, lambda storage, location: location):
        assert round_trip([t, t[1:]], map_location=answer)[1].tolist() == [1]
    assert asked == [(8, here)]


def test_the_same_object_makes_the_same_file(tmp_path):
    state = nn.Linear(2, 2).state_dict()
    for name in "ab":
        gradhook.save(state, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_container_comes_back_in_every_protocol(protocol):
    value = {
        "sets": [{1, "a"}, frozenset((2,)), set()],
        "others": [deque([1, 2], 3), Counter("ab"), OrderedDict(a=1), range(1, 9, 3), slice(1, 2)],
        "defaults": [defaultdict(k, a=k()) for k in (int, float, str, list, dict, set, bool)],
        "numbers": [1j, -0.0, 2**100, -(2**31), True, None, b"\0\xff", bytearray(b"a"), "é\ud800"],
        ("a", 1): (),
        2.5: ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    }
    value["itself"] = value["sets"]
    file = io.BytesIO()
    gradhook.save(value, file, pickle_protocol=protocol)
    file.seek(0)
    back = gradhook.load(file)
    assert back == value and back["itself"] is back["sets"]
    assert [d.default_factory for d in back["defaults"]] == [int, float, str, list, dict, set, bool]
    assert back["others"][0].maxlen == 3 and isinstance(back["others"][1], Counter)


def test_another_protocol_and_a_file_without_seek():
    with pytest.raises(ValueError, match="pickle_protocol: found 1, expected 2, 3, 4 or 5"):
        gradhook.save([], io.BytesIO(), pickle_protocol=1)

    class Pipe(io.RawIOBase):
        got = b""

        def writable(self):
            return True

        def write(self, data):
            self.got += bytes(data)
            return len(data)

    pipe = Pipe()
    gradhook.save([gradhook.ones(2)], pipe)
    assert gradhook.load(io.BytesIO(pipe.got))[0].tolist() == [1, 1]


def test_uninitialized_parameters_and_buffers_come_back():
    made = [
        nn.UninitializedParameter(False, dtype=gradhook.float64),
        nn.UninitializedParameter(),
        nn.UninitializedBuffer(persistent=False),
    ]
    for back, old in zip(round_trip(made), made, strict=True):
        assert type(back) is type(old) and back.dtype is old.dtype and back.device == old.device
        assert back.requires_grad == old.requires_grad


def test_a_subclass_of_tensor_needs_trust():
    t = gradhook.ones(2).as_subclass(Marked)
    t.note = "x"
    with pytest.raises(LoadError, match=r"names .*\.Marked, which is no part of a state_dict"):
        round_trip([t])
    back = round_trip([t], weights_only=False)[0]
    assert type(back) is Marked and back.note == "x" and back.tolist() == [1, 1]


def test_attributes_of_tensors_come_back_but_none_that_hides_a_method():
    t = gradhook.ones(1)
    t.note, t._private = {"a": [1]}, 1
    back = round_trip(t)
    assert back.note == {"a": [1]} and not hasattr(back, "_private")
    t.__dict__["backward"] = 3
    with pytest.raises(LoadError, match="a Tensor has the attribute 'backward'"):
        round_trip(t)


LAYOUTS = {
    "transposed": lambda t: t.permute(2, 0, 1),
    "part": lambda t: t[1:, :, 1:3],
    "column order": lambda t: gradhook.as_tensor(np.asfortranarray(t.cpu().numpy())).to(t.device),
    "real": lambda t: t.to(gradhook.complex64).real,
    "expanded": lambda t: t[:1].expand(4, 3, 4),
    "number": lambda t: t[0, 0, 0],
    "empty": lambda t: t[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_come_back_with_their_values(layout):
    t = LAYOUTS[layout](gradhook.arange(24.0).reshape(2, 3, 4))
    back = round_trip(t)
    assert back.tolist() == t.tolist() and back.dtype is t.dtype and back.shape == t.shape


@pytest.mark.cpu_only(reason="NumPy's views that run backward, or over fields")
def test_arrays_whose_layout_pytorch_lacks_are_copied():
    fields = np.zeros(3, [("a", "u1"), ("b", "f4")])
    fields["b"] = [1, 2, 3]
    made = [gradhook.from_numpy(np.arange(4.0)[::-1].copy()), gradhook.ones(1)]
    made[0]._a = np.arange(4.0)[::-1]
    made[1]._a = fields["b"]
    assert [t.tolist() for t in round_trip(made)] == [[3, 2, 1, 0], [1, 2, 3]]


def test_saving_twice_keeps_what_is_shared_shared():
    t = gradhook.arange(6.0).reshape(2, 3)
    once = round_trip([t, t.T, t[1]])
    a, b, c = round_trip(once)
    a.fill_(5.0)
    assert b.tolist() == [[5, 5], [5, 5], [5, 5]] and c.tolist() == [5, 5, 5]
