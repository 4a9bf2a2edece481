"""save and load: what comes back, where to, and what a file of weights may name."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict

import pytest

import gradhook
from gradhook import nn, optim

called = []


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


def test_a_tensor_with_history_and_a_file_of_pytorch_are_refused():
    with pytest.raises(RuntimeError, match="only leaf tensors can be pickled"):
        round_trip(gradhook.ones(1, requires_grad=True) * 2)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"a zip file, as torch\.save writes"):
        gradhook.load(file)
