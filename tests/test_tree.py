"""Containers come apart into leaves and are built again with their types."""

from __future__ import annotations

import time
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import InitVar, dataclass, field

import pytest

from gradhook.nn import tree

Pair = namedtuple("Pair", "left right")


class Triple(tuple):
    """A tuple type that is built from one iterable, as struct sequences are."""

    __slots__ = ()


class Bag(UserDict):
    def __eq__(self, other):
        return type(other) is Bag and self.data == other.data

    __hash__ = None


@dataclass
class Batch:
    images: object
    labels: object = None


@dataclass(frozen=True, slots=True)
class Frozen:
    value: object


@dataclass
class Prepared:
    """Converts in __post_init__ and keeps something beside its fields."""

    value: object
    scale: InitVar[int] = 10
    unset: object = field(init=False)

    def __post_init__(self, scale):
        self.value = self.value * scale
        self.note = "kept"


class Opaque:
    pass


OPAQUE = Opaque()
TREES = [
    (3, [3]),
    (None, [None]),
    ("text", ["text"]),
    (OPAQUE, [OPAQUE]),
    ((), []),
    ((1, (2, [3, None]), {}), [1, 2, 3, None]),
    ([1, [2]], [1, 2]),
    ({"b": 1, "a": (2, 3)}, [1, 2, 3]),
    (OrderedDict(b=1, a=2), [1, 2]),
    (defaultdict(list, b=1, a=[2]), [1, 2]),
    (Pair(1, Pair(2, 3)), [1, 2, 3]),
    (Triple((1, 2)), [1, 2]),
    (time.struct_time(range(9)), list(range(9))),
    (Bag(b=1, a=[2]), [1, 2]),
    (Batch([1, 2], {"x": 3}), [1, 2, 3]),
    (Frozen((1, 2)), [1, 2]),
]


def types_of(value):
    if isinstance(value, dict | UserDict):
        return type(value), [(key, types_of(child)) for key, child in value.items()]
    if isinstance(value, tuple | list):
        return type(value), [types_of(child) for child in value]
    return type(value)


@pytest.mark.parametrize(("value", "leaves"), TREES, ids=lambda v: type(v).__name__)
def test_a_tree_comes_apart_from_left_to_right_and_is_built_again_with_its_types(value, leaves):
    found, spec = tree.flatten(value)
    built = tree.unflatten(spec, found)
    assert found == leaves and spec.n_leaves == len(leaves)
    assert built == value and types_of(built) == types_of(value)


def test_a_defaultdict_keeps_its_factory():
    built = tree.map(str, defaultdict(list, a=1))
    assert built == {"a": "1"} and built["missing"] == []


def test_map_applies_to_every_leaf_none_included():
    assert tree.map(lambda leaf: leaf is None, {"a": [None, 1]}) == {"a": [True, False]}


def test_specs_compare_by_types_keys_and_structure_not_by_leaves():
    specs = [tree.flatten(value)[1] for value, _ in TREES]
    assert specs[0] == specs[1] == tree.LEAF
    assert tree.flatten({"a": 1})[1] == tree.flatten({"a": None})[1]
    for other in ({"b": 1}, OrderedDict(a=1), {"a": (1,)}, {"a": 1, "b": 2}):
        assert tree.flatten({"a": 1})[1] != tree.flatten(other)[1]
    assert tree.flatten(Batch(1, 2))[1] == tree.flatten(Batch(3, 4))[1]
    assert hash(specs[5]) == hash(tree.flatten(TREES[5][0])[1])


def test_a_dataclass_is_rebuilt_without_converting_twice_and_with_what_it_keeps_beside_fields():
    value = Prepared(2)
    leaves, spec = tree.flatten(value)
    assert leaves == [20]
    assert vars(tree.unflatten(spec, leaves)) == {"value": 20, "note": "kept"}
    del value
    assert vars(tree.unflatten(spec, [None])) == {"value": None}


def test_a_dataclass_is_not_kept_alive_by_its_spec():
    value = Batch(OPAQUE)
    spec = tree.flatten(value)[1]
    origin = spec.origin
    del value
    assert origin() is None


def test_a_registered_class_is_seen_into_and_only_once_registered():
    class Box:
        def __init__(self, content, name):
            self.content, self.name = content, name

    box = Box([1, 2], "n")
    assert tree.flatten(box) == ([box], tree.LEAF)
    tree.register_pytree_node(
        Box, lambda b: ([b.content], b.name), lambda children, name: Box(children[0], name)
    )
    leaves, spec = tree.flatten(box)
    built = tree.unflatten(spec, [leaf + 1 for leaf in leaves])
    assert (built.content, built.name) == ([2, 3], "n")
    with pytest.raises(ValueError, match="already registered"):
        tree.register_pytree_node(Box, list, list)
    with pytest.raises(TypeError, match="expects a class"):
        tree.register_pytree_node(box, list, list)


def test_a_wrong_number_of_leaves_is_named():
    with pytest.raises(ValueError, match="found 1 leaves, expected 2"):
        tree.unflatten(tree.flatten((1, 2))[1], [1])


def test_a_container_that_cannot_be_built_from_its_children_names_itself_and_the_way_out():
    class Point(tuple):
        def __new__(cls, x, y):
            return super().__new__(cls, (x, y))

    leaves, spec = tree.flatten(Point(1, 2))
    with pytest.raises(TypeError, match=r"Point from its 2 children .*register_pytree_node"):
        tree.unflatten(spec, leaves)
