"""Full backward hooks of modules see tensors in containers and keyword arguments."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Mapping

import pytest

import gradhook
from gradhook import nn
from gradhook.nn.tree import register_pytree_node

F64 = gradhook.float64
Pair = namedtuple("Pair", "first second")


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def shown(value):
    """Gradients as plain lists, in the containers they came in."""
    if isinstance(value, gradhook.Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(shown(v) for v in value)
    if isinstance(value, list):
        return [shown(v) for v in value]
    if isinstance(value, Registered):
        return ["registered", shown(value.a), shown(value.b)]
    return {k: shown(v) for k, v in value.items()} if isinstance(value, Mapping) else value


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


@pytest.fixture
def seen():
    return []


def watched(function, seen):
    module = Lambda(function)
    module.register_full_backward_hook(lambda m, gi, go: seen.append((shown(gi), shown(go))))
    return module


class Table(Mapping):
    """A Mapping that is built from pairs and is no dict."""

    def __init__(self, pairs):
        self.pairs = tuple(pairs)

    def __getitem__(self, key):
        return dict(self.pairs)[key]

    def __iter__(self):
        return iter(dict(self.pairs))

    def __len__(self):
        return len(self.pairs)


class Registered:
    def __init__(self, a, b):
        self.a, self.b = a, b


register_pytree_node(Registered, lambda r: ((r.a, r.b), None), lambda ab, _: Registered(*ab))


@dataclasses.dataclass
class Box:
    value: gradhook.Tensor
    name: str = "box"


CONTAINERS = {
    "tuple": (lambda x: (x * 2, x * 3), lambda o: o, lambda a, b: (a, b)),
    "list": (lambda x: [x * 2, x * 3], lambda o: o, lambda a, b: (a, b)),
    "dict": (
        lambda x: {"a": x * 2, "b": x * 3},
        lambda o: o.values(),
        lambda a, b: ({"a": a, "b": b},),
    ),
    "OrderedDict": (
        lambda x: OrderedDict(z=x * 2, a=x * 3),
        lambda o: o.values(),
        lambda a, b: (OrderedDict(z=a, a=b),),
    ),
    "namedtuple": (lambda x: Pair(x * 2, x * 3), lambda o: o, lambda a, b: (a, b)),
    "defaultdict": (
        lambda x: defaultdict(list, a=x * 2, b=x * 3),
        lambda o: o.values(),
        lambda a, b: ({"a": a, "b": b},),
    ),
    "Mapping": (
        lambda x: Table([("a", x * 2), ("b", x * 3)]),
        lambda o: o.values(),
        lambda a, b: ({"a": a, "b": b},),
    ),
    "registered class": (
        lambda x: Registered(x * 2, x * 3),
        lambda o: (o.a, o.b),
        lambda a, b: (["registered", a, b],),
    ),
    "nested": (
        lambda x: ((x * 2, "text"), [x * 3]),
        lambda o: (o[0][0], o[1][0]),
        lambda a, b: ((a, None), [b]),
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_outputs_in_containers_are_seen_and_come_back_in_their_types(name, seen):
    make, parts, expected = CONTAINERS[name]
    out = watched(make, seen)(leaf(1.0))
    assert type(out) is type(make(leaf(1.0)))
    a, b = parts(out)
    (a + 10 * b).backward()
    assert seen == [((32.0,), expected(1.0, 10.0))]


def test_inputs_in_containers_are_seen_and_come_back_in_their_types(seen):
    def forward(pair, table, box):
        assert type(pair) is Pair and type(table) is dict and type(box) is Box
        return pair.first * table["k"][0] + box.value

    a, b, c = leaf(2.0), leaf(3.0), leaf(4.0)
    module = Lambda(forward)
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    module(Pair(a, 5), {"k": [b], "other": "text"}, Box(c)).backward()
    pair, table, box = seen[0]
    assert shown(pair) == (3.0, None) and type(pair) is Pair
    assert shown(table) == {"k": [2.0], "other": None} and box.value.item() == 1
    assert [t.grad.item() for t in (a, b, c)] == [3, 2, 1]


def test_keyword_arguments_pass_the_barrier_and_have_no_entry(seen):
    a, b = leaf(2.0), leaf(3.0)
    module = watched(lambda x, *, y: x * y, seen)
    module(a, y=b).backward()
    assert seen == [((3.0,), (1.0,))] and b.grad.item() == 2
    seen.clear()
    watched(lambda *, y: y * 2, seen)(y=b).backward()
    assert seen == [((), (1.0,))]


def test_replacements_come_in_the_structure_of_the_call(seen):
    module, x = Lambda(lambda d: d["a"] * 2), leaf(1.0)
    handle = module.register_full_backward_hook(lambda m, gi, go: ({"a": gi[0]["a"] * 10},))
    module({"a": x}).backward()
    assert x.grad.item() == 20
    handle.remove()
    module.register_full_backward_hook(lambda m, gi, go: ([gi[0]["a"]],))
    with pytest.raises(RuntimeError, match=r"entry 0 has another structure"):
        module({"a": x}).backward()


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (lambda x: gradhook.max(x, 0), [0, 1]),
        (lambda x: gradhook.min(x, 0), [1, 0]),
        (lambda x: gradhook.topk(x, 2), [1, 1]),
        (lambda x: gradhook.sort(x), [1, 1]),
        (lambda x: gradhook.median(x, 0), [1, 0]),
    ],
    ids=["max", "min", "topk", "sort", "median"],
)
def test_what_an_op_of_several_results_returns_can_be_returned(op, expected, seen):
    # PyTorch: TypeError: constructor requires a sequence
    module = watched(op, seen)
    out = module(leaf([1.0, 5.0]))
    assert type(out) is type(op(leaf([1.0, 5.0])))
    out.values.sum().backward()
    shape = out.values.sum().new_ones(out.values.shape).tolist()
    assert seen == [((expected,), (shape, None))]


def test_a_dataclass_output_has_a_dataclass_of_gradients_and_takes_one_back():
    module, x, log = Lambda(lambda x: Box(x * 2)), leaf(1.0), []
    module.register_full_backward_pre_hook(lambda m, go: (Box(go[0].value * 10, None),))
    module.register_full_backward_hook(lambda m, gi, go: log.append(go[0]))
    out = module(x)
    assert type(out) is Box and out.name == "box"
    out.value.backward()
    assert x.grad.item() == 20 and type(log[0]) is Box and log[0].value.item() == 10


@pytest.mark.parametrize("kind", ["full_backward_pre", "full_backward"])
def test_a_list_that_a_hook_returns_reaches_the_next_as_a_tuple(kind, seen):
    module = Lambda(lambda x: x * 2)
    register = getattr(module, f"register_{kind}_hook")
    register(lambda m, *gradients: list(gradients[0]))
    register(lambda m, *gradients: seen.append([type(g) for g in gradients]))
    module(leaf(1.0)).backward()
    assert set(seen[0]) == {tuple}


def test_a_pre_hook_alone_warns_of_nothing_without_inputs_that_need_grad(seen):
    module = nn.Linear(1, 1).double()
    module.register_full_backward_pre_hook(lambda m, go: seen.append(go[0].tolist()))
    module(gradhook.ones(1, 1, dtype=F64)).sum().backward()
    assert seen == [[[1.0]]]


def test_an_output_that_gradhook_cannot_look_into_warns_once_a_type():
    class Opaque:
        def __init__(self, value):
            self.value = value

    module = Lambda(lambda x: Opaque(x * 2))
    module.register_full_backward_hook(lambda m, gi, go: None)
    with pytest.warns(
        UserWarning, match=r"^For backward hooks to be called, module output should be"
    ):
        module(leaf(1.0))
    module(leaf(1.0))
