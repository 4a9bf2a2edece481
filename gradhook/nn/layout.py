"""Layout: how the leaves of a module call lie in its top-level tuple of arguments or outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gradhook.nn import tree
from gradhook.tensor import Tensor

PLAIN = frozenset((type(None), bool, int, float, str, Tensor))


class Layout:
    """Of values that are leaves themselves (the common case: one tensor).

    count: entries that hooks see; n_leaves: all leaves, those of keyword arguments last; names:
    of the keyword arguments.
    """

    __slots__ = ("count", "n_leaves", "names", "single")

    def __init__(self, count: int, n_leaves: int, names: tuple[str, ...]) -> None:
        self.count = count
        self.n_leaves = n_leaves
        self.names = names
        self.single = count == n_leaves == 1 and type(self) is Layout

    @property
    def owners(self) -> tuple[int | str, ...]:
        """The position (or keyword) each leaf belongs to."""
        return (*range(self.count), *self.names)

    def rebuilt(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The values again, of these leaves."""
        return tuple(leaves)

    def pack(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients of the leaves in the shape that hooks see."""
        return tuple(leaves if len(leaves) == self.count else leaves[: self.count])

    def pack_named(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Gradients of the keyword arguments, by name, each in the shape of the argument."""
        return dict(zip(self.names, leaves[self.count :], strict=True))

    def unpack_named(self, named: Mapping[str, Any], leaves: list[Any]) -> list[Any]:
        """The leaves with these entries of keyword arguments."""
        pairs = zip(self.names, leaves[self.count :], strict=True)
        return [*leaves[: self.count], *[named.get(name, leaf) for name, leaf in pairs]]

    def unpack(self, result: tuple[Any, ...], leaves: Sequence[Any]) -> list[Any]:
        """The leaves again: what hooks returned for those they see, the others as they were."""
        return [*result, *leaves[self.count :]]


class TreeLayout(Layout):
    """Of values with containers among them. children: a spec a value; tensors: which leaves are
    tensors."""

    __slots__ = ("spec", "tensors")

    def __init__(
        self, spec: tree.TreeSpec, leaves: list[Any], count: int, names: tuple[str, ...]
    ) -> None:
        super().__init__(count, len(leaves), names)
        self.spec = spec
        self.tensors = [isinstance(leaf, Tensor) for leaf in leaves]

    @property
    def owners(self) -> tuple[int | str, ...]:
        keys = (*range(self.count), *self.names)
        children = zip(keys, self.spec.children, strict=True)
        return tuple(key for key, child in children for _ in range(child.n_leaves))

    def rebuilt(self, leaves: list[Any]) -> tuple[Any, ...]:
        return tree.unflatten(self.spec, leaves)  # type: ignore[no-any-return]

    def pack(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """A container with tensors gets the same container of gradients, another value None."""
        return tuple(self._packed(leaves, self.spec.children[: self.count]))

    def pack_named(self, leaves: Sequence[Any]) -> dict[str, Any]:
        return dict(
            zip(self.names, self._packed(leaves, self.spec.children)[self.count :], strict=True)
        )

    def unpack_named(self, named: Mapping[str, Any], leaves: list[Any]) -> list[Any]:
        found, start = list(leaves), 0
        for key, child in zip((*range(self.count), *self.names), self.spec.children, strict=True):
            if key in named:
                found[start : start + child.n_leaves] = _flat_entry(key, named[key], child)
            start += child.n_leaves
        return found

    def _packed(self, leaves: Sequence[Any], children: tuple[tree.TreeSpec, ...]) -> list[Any]:
        packed, start = [], 0
        for child in children:
            end = start + child.n_leaves
            if child.kind is None:
                packed.append(leaves[start])
            elif any(self.tensors[start:end]):
                packed.append(tree.unflatten(child, leaves[start:end]))
            else:
                packed.append(None)
            start = end
        return packed

    def unpack(self, result: tuple[Any, ...], leaves: Sequence[Any]) -> list[Any]:
        """Errors: RuntimeError for another structure than the call's."""
        found: list[Any] = []
        for k, (entry, child) in enumerate(zip(result, self.spec.children, strict=False)):
            found += _flat_entry(k, entry, child)
        return [*found, *leaves[len(found) :]]


def _flat_entry(key: Any, entry: Any, child: tree.TreeSpec) -> list[Any]:
    """The leaves of one entry; None stands for a container of Nones."""
    if entry is None:
        return [None] * child.n_leaves
    flat, spec = tree.flatten(entry)
    if spec != child:
        raise RuntimeError(
            f"entry {key!r} has another structure ({spec}) than the call's value ({child})"
        )
    return flat


_flat = cache(Layout)
SINGLE = _flat(1, 1, ())


def layout_of(
    values: tuple[Any, ...], count: int, names: tuple[str, ...] = (), flat: bool = False
) -> tuple[Layout, list[Any]]:
    """The layout of a call's values (positional ones first) and their leaves. flat: containers are
    leaves.
    """
    for value in () if flat else values:
        if type(value) not in PLAIN and not isinstance(value, Tensor):
            leaves, spec = tree.flatten(values)
            return TreeLayout(spec, leaves, count, names), leaves
    return _flat(count, len(values), names), list(values)
