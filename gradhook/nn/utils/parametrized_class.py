"""The classes of parametrized modules: a property for each parametrized tensor.

A class is never changed: registering or removing gives the module another one. So copies of a
module, which share its class, can be changed on their own (in PyTorch removing a parametrization
from a copy takes the property from the original, too).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gradhook.nn.container import ModuleDict
from gradhook.tensor import Tensor

HOME = "gradhook.nn.utils.parametrize"
NAMES = "_parametrized_names"
GIVEN = "_given"  # on a ParametrizationList: the tensor that stands for its result

# From each ParametrizationList to its result, inside cached(). It holds the lists, so that no id
# comes twice.
_cache: ContextVar[dict[Any, Tensor] | None] = ContextVar("gradhook_parametrized", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Within, a parametrized tensor is computed when it is first read, and kept until the end.

    For a weight that is read several times in a forward, such as that of a recurrent cell. An
    assignment to the tensor forgets what is kept; a change in place of its originals does not.
    A context of this thread or asyncio task. Source: torch.nn.utils.parametrize.cached.
    """
    with _caching({} if _cache.get() is None else _cache.get()):
        yield


@contextmanager
def cached_apart() -> Iterator[None]:
    """Within, what cached() keeps outside is neither read nor changed."""
    with _caching(None if _cache.get() is None else {}):
        yield


@contextmanager
def _caching(cache: dict[Any, Tensor] | None) -> Iterator[None]:
    outer = _cache.get()
    _cache.set(cache)
    try:
        yield
    finally:
        _cache.set(outer)


def _list_of(module: Any, name: str) -> Any:
    return module.__dict__["_modules"]["parametrizations"]._modules[name]


def _computed(made: Any, module: Any, name: str) -> Tensor:
    try:
        result: Tensor = made()
    except AttributeError as error:  # of a property: Python would say that there is no such name
        raise RuntimeError(
            f"a parametrization of '{name}' of <{type(module).__name__}> raised AttributeError: "
            f"{error}"
        ) from error
    return result


def _parametrized(name: str) -> property:
    def read(module: Any) -> Tensor:
        made = _list_of(module, name)
        own = made.__dict__
        if GIVEN in own:
            return own[GIVEN]  # type: ignore[no-any-return]
        cache = _cache.get()
        if cache is None:
            return _computed(made, module, name)
        found = cache.get(made)
        if found is None:
            found = cache[made] = _computed(made, module, name)
        return found

    def write(module: Any, value: Tensor) -> None:
        made = _list_of(module, name)
        if GIVEN in made.__dict__:
            made.__dict__[GIVEN] = value
            return
        made.right_inverse(value)
        cache = _cache.get()
        if cache is not None:
            cache.pop(made, None)

    return property(read, write, doc=f"`{name}` as its parametrizations make it")


def _getstate(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). Save "
        "module.state_dict(), register the same parametrizations on a new module, and load it there"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy, although __getstate__ refuses pickling."""
    found = memo.get(id(self))
    if found is None:
        found = memo[id(self)] = self.__new__(type(self))
        found.__setstate__(copy.deepcopy(super(type(self), self).__getstate__(), memo))
    return found


def base_of(module: Any) -> type:
    """The class of a module without parametrizations."""
    cls = type(module)
    return cls.__bases__[0] if NAMES in vars(cls) else cls


def put_class(module: Any, names: Iterable[str]) -> None:
    """Give a module the class on which these of its tensors are parametrized; its own for none."""
    base, wanted = base_of(module), frozenset(names)
    if not wanted:
        module.__class__ = base
        return
    known: type
    for known in type.__subclasses__(base):
        if vars(known).get(NAMES) == wanted:
            module.__class__ = known
            return
    members: dict[str, Any] = {name: _parametrized(name) for name in sorted(wanted)}
    members |= {NAMES: wanted, "__getstate__": _getstate, "__module__": HOME}
    if not hasattr(base, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(base)(f"Parametrized{base.__name__}", (base,), members)


def lists_of(module: Any) -> ModuleDict | None:
    """The ParametrizationLists of a module by tensor name; None where it never had one."""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    return found if isinstance(found, ModuleDict) else None
