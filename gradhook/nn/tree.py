"""Containers of arguments, outputs and gradients: flatten them into leaves and build them again.

Known containers: tuple, list, dict, OrderedDict, defaultdict, namedtuples and other tuple types
(struct sequences), dataclass instances, Mappings that are built from pairs, and what
register_pytree_node adds. Everything else is a leaf, None and strings too. Order is insertion
order; types are restored. Source of the rules: HOOKS.md B2; of the names: torch.utils._pytree.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

Flatten: TypeAlias = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten: TypeAlias = Callable[[list[Any], Any], Any]


class Container(NamedTuple):
    """How one container type is taken apart, flatten(tree) -> (children, context), and built,
    unflatten(children, context) -> tree."""

    flatten: Flatten
    unflatten: Unflatten


@dataclasses.dataclass(unsafe_hash=True, slots=True)  # frozen would cost a third of flatten's time
class TreeSpec:
    """The shape of a tree without its leaves; compares and hashes by type, context and children.

    Never changed after it is made.

    kind: the container's type, None for a leaf. context: what the type needs beside its children
    (keys, field names). children: a spec each. n_leaves: leaves below. origin: a weak reference
    to the dataclass instance the spec was made from, if any; no part of the comparison.
    """

    kind: type | None
    context: Any
    children: tuple[TreeSpec, ...]
    n_leaves: int
    origin: weakref.ref[Any] | None = dataclasses.field(default=None, compare=False, repr=False)


LEAF = TreeSpec(None, None, (), 1)

_registered: dict[type, Container] = {}


def register_pytree_node(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Teach gradhook to see the tensors inside instances of exactly cls (subclasses: their own).

    flatten(tree) -> (children, context); context should compare with ==, as specs are compared.
    unflatten(children: list, context) -> tree. TypeError when cls is no class; ValueError when cls
    is registered already.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_pytree_node expects a class, found {cls!r}; pass its type")
    if cls in _registered:
        raise ValueError(f"{cls.__qualname__} is already registered as a pytree node; remove one")
    _registered[cls] = Container(flatten, unflatten)
    _container.cache_clear()


def flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """All leaves from left to right, and the spec that unflatten needs."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves)


def unflatten(spec: TreeSpec, leaves: Iterable[Any]) -> Any:
    """The tree of this spec over other leaves.

    ValueError when the number of leaves is not spec.n_leaves; TypeError when a container type
    cannot be built from its children (the message names it).
    """
    leaves = list(leaves)
    if len(leaves) != spec.n_leaves:
        raise ValueError(f"unflatten: found {len(leaves)} leaves, expected {spec.n_leaves}")
    return _build(spec, iter(leaves))


def map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with fn applied to every leaf."""
    leaves, spec = flatten(tree)
    return _build(spec, iter([fn(leaf) for leaf in leaves]))


def _flatten_into(tree: Any, leaves: list[Any]) -> TreeSpec:
    cls: type = type(tree)
    container = _container(cls)
    if container is None:
        leaves.append(tree)
        return LEAF
    before = len(leaves)
    children, context = container.flatten(tree)
    specs = tuple([_flatten_into(child, leaves) for child in children])
    origin = weakref.ref(tree) if container is _DATACLASS and hasattr(tree, "__dict__") else None
    return TreeSpec(cls, context, specs, len(leaves) - before, origin)


def _build(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    if spec.kind is None:
        return next(leaves)
    children = [_build(child, leaves) for child in spec.children]
    container = _container(spec.kind)
    if container is None:
        raise TypeError(f"{spec.kind.__qualname__} is no container any more; flatten it again")
    if container is _DATACLASS:
        return _dataclass_of(spec, children)
    try:
        return container.unflatten(children, spec.context)
    except TypeError as error:
        raise TypeError(
            f"cannot build a {spec.kind.__qualname__} from its {len(children)} children ({error}); "
            "tell gradhook how with gradhook.nn.tree.register_pytree_node"
        ) from error


@functools.lru_cache(maxsize=1024)
def _container(cls: type) -> Container | None:
    """The rule for a type; None for a leaf type. Cached: leaves are what is asked for most."""
    if cls in _registered:
        return _registered[cls]
    if issubclass(cls, tuple):
        return _sequence(cls)
    if issubclass(cls, Mapping):
        return _mapping(cls)
    return _DATACLASS if dataclasses.is_dataclass(cls) else None


def _sequence(cls: type) -> Container:
    """namedtuples are built by _make (their constructor takes fields), others from an iterable."""
    build = getattr(cls, "_make", cls)
    return Container(lambda tree: (tree, None), lambda children, context: build(children))


def _mapping(cls: type) -> Container:
    """Mappings are built from (key, value) pairs."""
    return Container(
        lambda tree: (list(tree.values()), tuple(tree)),
        lambda children, keys: cls(zip(keys, children, strict=True)),
    )


def _fields(tree: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Fields that are set, by name; a field may be unset when its class says init=False."""
    names = tuple(f.name for f in dataclasses.fields(tree) if hasattr(tree, f.name))
    return [getattr(tree, name) for name in names], names


def _dataclass_of(spec: TreeSpec, children: list[Any]) -> Any:
    """A dataclass instance over new field values, made without its constructor.

    __post_init__ may convert values (a second run would do it twice) or refuse a None gradient, so
    it does not run; what it had set beside the fields is taken from the original while that lives.
    """
    cls: Any = spec.kind
    tree: Any = object.__new__(cls)
    original = spec.origin() if spec.origin is not None else None
    if original is not None:
        vars(tree).update(vars(original))
    for name, child in zip(spec.context, children, strict=True):
        object.__setattr__(tree, name, child)
    return tree


_DATACLASS = Container(_fields, lambda children, names: dict(zip(names, children, strict=True)))

register_pytree_node(tuple, lambda tree: (tree, None), lambda children, context: tuple(children))
register_pytree_node(list, lambda tree: (tree, None), lambda children, context: children)
for _cls in (dict, OrderedDict):
    register_pytree_node(_cls, *_mapping(_cls))
register_pytree_node(
    defaultdict,
    lambda tree: (list(tree.values()), (tree.default_factory, tuple(tree))),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
