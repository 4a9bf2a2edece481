"""state_dict and load_state_dict: names, sharing, PyTorch's error texts, all or nothing."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

import gradhook
from gradhook import nn


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def values(module):
    return {k: v.cpu().numpy().copy() for k, v in module.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_a_state_dict_names_parameters_and_buffers_and_shares_their_memory():
    m = net()
    state = m.state_dict()
    assert list(state)[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(state)[4:7] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert state._metadata["1"] == {"version": 2} and state._metadata[""] == {"version": 1}
    assert not state["0.weight"].requires_grad
    state["0.bias"].zero_()
    assert float(m[0].bias.abs().sum()) == 0
    assert m.state_dict(keep_vars=True)["0.weight"] is m[0].weight
    assert list(m[0].state_dict(prefix="fc.")) == ["fc.weight", "fc.bias"]


def test_loading_copies_and_says_that_all_keys_matched():
    a, b = net(), net()
    result = b.load_state_dict(a.state_dict())
    assert str(result) == "<All keys matched successfully>"
    assert same(values(a), values(b))
    a[0].weight.detach().zero_()
    assert not same(values(a), values(b))


def test_a_state_dict_survives_pickle():
    a, b = net(), net()
    b.load_state_dict(pickle.loads(pickle.dumps(a.state_dict())))
    assert same(values(a), values(b))


def test_missing_unexpected_and_misshapen_entries_are_named_and_nothing_changes():
    a, b = net(), net()
    state = {k: v.clone() for k, v in a.state_dict().items()}
    del state["2.bias"]
    state["3.weight"] = gradhook.ones(1)
    state["0.weight"] = gradhook.ones(2, 3)
    before = values(b)
    with pytest.raises(RuntimeError) as error:
        b.load_state_dict(state)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "2.bias". \n'
        '\tUnexpected key(s) in state_dict: "3.weight". \n'
        "\tsize mismatch for 0.weight: copying a param with shape gradhook.Size([2, 3]) from "
        "checkpoint, the shape in current model is gradhook.Size([4, 3])."
    )
    assert same(before, values(b))


def test_without_strict_the_differences_are_returned():
    m = net()
    state = m.state_dict()
    del state["0.bias"]
    state["x.y"] = gradhook.ones(1)
    result = m.load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.bias"] and result.unexpected_keys == ["x.y"]
    state["0.weight"] = gradhook.ones(1)
    with pytest.raises(RuntimeError, match="size mismatch"):
        m.load_state_dict(state, strict=False)


@pytest.mark.parametrize("thing", [3, "model.pkl", [("a", 1)], np.ones(3), None])
def test_what_is_no_state_dict_is_one_clear_error(thing):
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got"):
        net().load_state_dict(thing)


def test_a_dict_of_something_else_is_refused_too():
    m = net()
    before = values(m)
    with pytest.raises(TypeError, match="got a key 0 of"):
        m.load_state_dict({0: gradhook.ones(1)})
    with pytest.raises(RuntimeError, match=r"expected gradhook.Tensor or Tensor-like object"):
        m.load_state_dict({**m.state_dict(), "0.bias": [1.0] * 4})
    assert same(before, values(m))


def test_assign_takes_the_tensors_themselves():
    m = net()
    state = {k: v.clone() for k, v in m.state_dict().items()}
    m[0].weight.requires_grad_(False)
    m.load_state_dict(state, assign=True)
    assert isinstance(m[0].weight, nn.Parameter) and not m[0].weight.requires_grad
    state["0.weight"].zero_()
    assert float(m[0].weight.abs().sum()) == 0
    assert m[1].running_mean is state["1.running_mean"]


def test_extra_state_is_saved_and_given_back():
    class Counted(nn.Module):
        steps = 0

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    a, b = Counted(), Counted()
    a.steps = 7
    assert a.state_dict() == {"_extra_state": {"steps": 7}}
    b.load_state_dict(a.state_dict())
    assert b.steps == 7
    with pytest.raises(RuntimeError, match=r'Missing key.*"_extra_state"'):
        b.load_state_dict({})


class Holds(nn.Module):
    """Its extra state is what it holds, a child too."""

    def __init__(self, held):
        super().__init__()
        self.held = held

    def get_extra_state(self):
        return self.held

    def set_extra_state(self, state):
        self.held = state


@pytest.mark.parametrize("state", ["text", 5, None, Holds(3)], ids=repr)
def test_extra_state_may_be_anything_even_a_child_of_its_own(state):
    a, b = Holds(state), Holds("else")
    b.load_state_dict(a.state_dict())
    assert a.state_dict() == b.state_dict() and b.held == state


def test_a_load_that_fails_takes_back_a_child_that_extra_state_made():
    module = nn.Sequential(Holds("else"), nn.Linear(1, 1))
    state = nn.Sequential(Holds(Holds(3)), nn.Linear(2, 1)).state_dict()
    with pytest.raises(RuntimeError, match="size mismatch"):
        module.load_state_dict(state)
    assert module[0].held == "else" and list(module[0].children()) == []
    assert module[0].__dict__["held"] == "else"


class Refuses(Holds):
    """Its extra state can't be given back."""

    def set_extra_state(self, state):
        raise ValueError("not this one")


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_load_whose_writes_fail_is_taken_back(assign, where):
    parts = [nn.Linear(1, 1), nn.BatchNorm1d(1)]
    parts.insert(where, Refuses(3))
    module = nn.Sequential(*parts)
    rest = [m for m in parts if not isinstance(m, Refuses)]
    before, kept = [values(m) for m in rest], dict(module.named_parameters())
    state = {k: v if "extra" in k else v + 1 for k, v in module.state_dict().items()}
    with pytest.raises(ValueError, match="not this one"):
        module.load_state_dict(state, assign=assign)
    assert all(same(values(m), old) for m, old in zip(rest, before, strict=True))
    assert all(p is kept[name] for name, p in module.named_parameters())


@pytest.mark.parametrize("target", ["inference", "expanded"])
def test_a_load_into_what_cannot_be_written_changes_nothing_else(target):
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    if target == "inference":
        with gradhook.inference_mode():
            module[1].weight = nn.Parameter(gradhook.ones(2, 2), requires_grad=False)
    else:
        module[1].weight = nn.Parameter(gradhook.ones(1, 2).expand(2, 2))
    state = {k: v + 1 for k, v in module.state_dict().items()}
    before = values(module)
    with pytest.raises(RuntimeError, match=r'While copying the parameter named "1\.weight"'):
        module.load_state_dict(state)
    assert same(values(module), before)


def test_a_module_may_upgrade_old_entries_before_they_are_read():
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            if prefix + "w" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    m = nn.Sequential(Renamed(2, 1, bias=False))
    state = {"0.w": gradhook.ones(1, 2)}
    m.load_state_dict(state)
    assert m[0].weight.tolist() == [[1, 1]] and list(state) == ["0.w"]


def test_a_one_element_vector_fits_a_number():
    class Scalar(nn.Module):
        def __init__(self):
            super().__init__()
            self.s = nn.Parameter(gradhook.zeros(()))

    m = Scalar()
    m.load_state_dict({"s": gradhook.tensor([3.0])})
    assert float(m.s) == 3


def test_old_batch_norm_states_have_no_counter():
    m = nn.BatchNorm1d(2)
    state = {k: v for k, v in m.state_dict().items() if k != "num_batches_tracked"}
    m.load_state_dict(dict(state))


def test_a_wrapper_s_prefix_is_taken_off_names_and_metadata():
    wrapper = nn.Module()
    wrapper.module = net()
    state = wrapper.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    plain = net().state_dict()
    assert list(state) == list(plain)
    assert {k: v for k, v in state._metadata.items()} == dict(plain._metadata)
    mixed = {"a.x": 1, "b.x": 2}
    nn.modules.utils.consume_prefix_in_state_dict_if_present(mixed, "a.")
    assert mixed == {"b.x": 2, "x": 1}


@pytest.mark.parametrize("hooked", [False, True])
def test_loading_makes_no_reference_cycle(hooked):
    module = net()
    if hooked:
        module[0].register_load_state_dict_pre_hook(lambda *args: None)
        module[0].register_load_state_dict_post_hook(lambda *args: None)
    state = copy.deepcopy(module).state_dict()
    gc.collect()
    module.load_state_dict(state)
    assert gc.collect() == 0


def test_a_copy_that_fails_is_named_in_pytorch_s_words():
    class Stubborn(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(gradhook.from_numpy(fixed), requires_grad=False)

    fixed = np.ones(2, np.float32)
    fixed.flags.writeable = False
    module = Stubborn()
    with pytest.raises(
        RuntimeError, match=r'While copying the parameter named "weight".*an exception occurred'
    ):
        module.load_state_dict({"weight": gradhook.zeros(2)})
