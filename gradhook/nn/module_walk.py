"""Walking a module tree: children, modules, parameters, buffers and their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor


class ModuleWalk:
    """The traversal half of Module; names are joined with dots."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(name, module) of this module (named `prefix`) and all below it, each once unless
        remove_duplicate=False.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it."""
        found: list[Any] = []
        seen: set[Any] = set()
        stack = [self]
        while stack:  # depth first, in order; without the names that named_modules makes
            module = stack.pop()
            if module in seen:
                continue
            if remove_duplicate:
                seen.add(module)
            found.append(module)
            stack += [m for m in reversed(module._modules.values()) if m is not None]
        yield from found

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """(name, module) of the immediate children, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The immediate children."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        walk = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for at, module in walk:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{at}.{name}" if at else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter) of this module and, with recurse, of all below it; shared ones once."""
        yield from self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, as an optimizer takes them."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(name, buffer) of this module and, with recurse, of all below it; shared ones once."""
        yield from self._named_members(
            lambda m: m._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call fn on every module below and last on this one. Returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def get_submodule(self, target: str) -> Any:
        """The module at a dotted name; "" is this one.

        Errors: AttributeError names what is missing, or is no Module.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleWalk):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _owner(self, target: str) -> tuple[Any, str]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        return owner, name

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name.

        Errors: AttributeError names what is missing, or is no Parameter.
        """
        owner, name = self._owner(target)
        found = getattr(owner, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name.

        Errors: AttributeError names what is missing, or is no buffer.
        """
        owner, name = self._owner(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        found: Tensor = owner._buffers[name]
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module at a dotted name; strict: there must be one already.

        Errors: ValueError for "", AttributeError.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if not isinstance(module, ModuleWalk):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), ModuleWalk):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(owner, name, module)
