"""Registration of a module's hooks, and the tables they are kept in, made on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from gradhook.autograd.host_hooks import host_hook
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.registry import HookTable

MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use "
    "only one of them."
)


class LazyTable:
    """A hook table that a module makes when it is first read; from then on it is in the instance's
    dict.

    Making it turns the instance's `_has_hooks` on: whoever holds the table may write to it.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: ModuleHooks | None, owner: type) -> HookTable:
        if module is None:
            raise AttributeError(
                f"{owner.__name__}.{self.name}: each module has a table of its own"
            )
        return set_table(module, self.name, HookTable())


def set_table(module: ModuleHooks, name: str, hooks: Any) -> HookTable:
    """Make `hooks` the module's table of that name; a plain dict is wrapped in a HookTable."""
    table = hooks if isinstance(hooks, HookTable) else HookTable(hooks)
    module.__dict__["_has_hooks"] = True
    module.__dict__[name] = table
    return table


def flagged(table: HookTable, flag: str) -> OrderedDict[int, bool]:
    """The ids in a table that carry a flag, as PyTorch's side tables show them."""
    return OrderedDict((key, True) for key, _, flags in table.items_snapshot() if flag in flags)


class ModuleHooks:
    """The hook half of Module.

    Attributes have PyTorch's names; flags go with each hook instead of side tables.
    """

    _has_hooks: bool = False
    _forward_pre_hooks = LazyTable()
    _forward_hooks = LazyTable()
    _backward_pre_hooks = LazyTable()
    _backward_hooks = LazyTable()
    hook_tables: ClassVar[frozenset[str]] = frozenset(
        ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    )

    @property
    def _forward_hooks_with_kwargs(self) -> OrderedDict[int, bool]:
        return flagged(self._forward_hooks, "with_kwargs")

    @property
    def _forward_hooks_always_called(self) -> OrderedDict[int, bool]:
        return flagged(self._forward_hooks, "always_call")

    @property
    def _forward_pre_hooks_with_kwargs(self) -> OrderedDict[int, bool]:
        return flagged(self._forward_pre_hooks, "with_kwargs")

    @property
    def _is_full_backward_hook(self) -> bool | None:
        """True with full backward hooks, False with legacy ones, None with neither."""
        if not self.__dict__.get("_backward_hooks"):
            return None
        return bool(self.__dict__.get("_full_backward", True))

    @_is_full_backward_hook.setter
    def _is_full_backward_hook(self, value: bool | None) -> None:
        self.__dict__["_full_backward"] = value is not False

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` before forward, with_kwargs: `hook(module, args, kwargs)`.

        It returns None, or new args (with_kwargs: a pair of new args and kwargs). prepend: before
        the module's other hooks of this kind. Returns the handle that removes it.
        Source: torch.nn.Module.
        """
        flags = ("with_kwargs",) if with_kwargs else ()
        return self._forward_pre_hooks.add(hook, prepend=prepend, flags=flags)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` after forward, with_kwargs: `hook(module, args, kwargs,
        output)`.

        A result that is not None replaces the output. always_call: also when forward or an earlier
        hook raised. Source: torch.nn.Module.
        """
        flags = [n for n, on in (("with_kwargs", with_kwargs), ("always_call", always_call)) if on]
        return self._forward_hooks.add(hook, prepend=prepend, flags=flags)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False, *, host: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` when the gradients of the outputs have arrived; a tuple
        replaces them.

        grad_output: a tuple, an entry an output, None where none arrived. host: the hook observes
        NumPy copies, which the device does not wait for. Source: torch.nn.Module.
        """
        return self._backward_pre_hooks.add(host_hook(hook, host), prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False, *, host: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when the gradients of the inputs are known; a
        tuple replaces them.

        grad_input: a tuple, an entry a positional argument, None for one that is no Tensor, needs
        no gradient or got none. host: the hook observes NumPy copies, which the device does not
        wait for. Errors: RuntimeError beside legacy hooks. Source: torch.nn.Module.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(MIXED)
        handle = self._backward_hooks.add(host_hook(hook, host), prepend=prepend)
        self._is_full_backward_hook = True
        return handle

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The legacy form: `hook(module, grad_input, grad_output)` of the node that made the
        output.

        Errors: RuntimeError beside full backward hooks. Use register_full_backward_hook instead.
        Source: torch.nn.Module.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(MIXED)
        handle = self._backward_hooks.add(hook)
        self._is_full_backward_hook = False
        return handle
