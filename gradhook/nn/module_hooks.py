"""Registration of the hooks of a module's calls, and the tables they are kept in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gradhook.autograd.completion import Wanted
from gradhook.autograd.host_hooks import host_hook
from gradhook.autograd.numbering import numbering
from gradhook.hooks.calls import FORWARD, FULL, OTHER
from gradhook.hooks.declared import is_declared
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.owner import HookOwner, LazyTable, RegisteredHook, turn_on
from gradhook.hooks.registry import HookTable
from gradhook.nn.module_walk import ModuleWalk

MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use "
    "only one of them."
)


def full_flags(with_kwargs: bool, when: str) -> list[str]:
    """The flags of a full backward hook. Errors: ValueError for an unknown `when`."""
    if when not in ("auto", "outputs", "complete"):
        raise ValueError(f"when: found {when!r}, expected 'auto', 'outputs' or 'complete'")
    if when == "complete":
        Wanted.calls = True
        numbering.start_logging()
    return (["with_kwargs"] if with_kwargs else []) + ([when] if when != "auto" else [])


def flagged(table: HookTable, flag: str) -> OrderedDict[int, bool]:
    """The ids in a table that carry a flag, as PyTorch's side tables show them."""
    return OrderedDict((key, True) for key, _, flags in table.items_snapshot() if flag in flags)


class MemberFirst:
    """A method that gives way to a parameter, buffer or child module of the same name, for names
    that PyTorch leaves to the user.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self.method
        name = self.method.__name__
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in module.__dict__.get(registry, ()):
                return module.__dict__[registry][name]
        return self.method.__get__(module, owner)


class ModuleHooks(HookOwner, ModuleWalk):
    """The half of Module about hooks: listing and removing all kinds, registering those of calls.

    Attributes have PyTorch's names; flags go with each hook instead of side tables.
    """

    _hook_kinds: int = 0  # which tables of call hooks it ever had; hooks/calls.py
    _forward_pre_hooks = LazyTable("forward_pre", turns_on=("_hook_kinds", OTHER))
    _forward_hooks = LazyTable("forward", turns_on=("_hook_kinds", FORWARD))
    _backward_pre_hooks = LazyTable("full_backward_pre", turns_on=("_hook_kinds", FULL))
    _backward_hooks = LazyTable("full_backward", turns_on=("_hook_kinds", FULL))
    _params_ready_hooks = LazyTable("params_ready")

    @MemberFirst
    def hooks(self, kind: str | None = None) -> list[RegisteredHook]:
        """The hooks of this module alone, each with kind, id, hook and flags, kinds together and in
        firing order.

        kind: only those; named after the registering method ("forward_pre", "full_backward",
        "backward" for legacy ones, "load_state_dict_post", ...). Global hooks are in none.
        Errors: ValueError for a kind that is none.
        """
        self._check_kind(kind)
        return [entry for _, entry in self._entries(kind)]

    @MemberFirst
    def remove_hooks(self, kind: str | None = None, recurse: bool = True) -> int:
        """Remove all hooks of one kind (None: of every kind) here and, with recurse, in all modules
        below; returns how many there were.

        Graphs that are already recorded keep their backward hooks. Hooks that a module registered
        on itself, such as a lazy one's, go too. Errors: ValueError for a kind that is none.
        """
        self._check_kind(kind)
        return sum(m._removed(kind) for m in (self.modules() if recurse else (self,)))

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
            self.__dict__.pop("_full_backward", None)  # empty: the next hook decides anew
            return None
        return bool(self.__dict__.get("_full_backward", True))

    @_is_full_backward_hook.setter
    def _is_full_backward_hook(self, value: bool | None) -> None:
        self.__dict__["_full_backward"] = value is not False
        if value is False:
            turn_on(self, "_hook_kinds", OTHER)

    def _flags(self, **options: bool) -> list[str]:
        """The names of the options that are on."""
        if options.get("keep_io"):
            self.__dict__["_keeps_io"] = True
            turn_on(self, "_hook_kinds", OTHER)
        return [name for name, on in options.items() if on]

    def register_forward_pre_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        keep_io: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args)` before forward, with_kwargs: `hook(module, args, kwargs)`.

        It returns None, or new args (with_kwargs: a pair of new args and kwargs). prepend: before
        the module's other hooks of this kind. keep_io: `gradhook.hooks.current_call()` keeps the
        call's arguments and output, for this and every other hook of the module. Returns the
        handle that removes it. Errors: the call raises RuntimeError when a hook with_kwargs returns
        anything but a pair. Source: torch.nn.Module; keep_io is gradhook's.
        """
        flags = self._flags(with_kwargs=with_kwargs, keep_io=keep_io)
        return self._forward_pre_hooks.add(hook, prepend=prepend, flags=flags)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
        keep_io: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` after forward, with_kwargs: `hook(module, args, kwargs,
        output)`.

        A result that is not None replaces the output, for the later hooks, too. args and kwargs are
        as the pre-hooks left them. always_call: also when forward or an earlier hook raised,
        whatever it raised; its result is then ignored, and an error of its own warns. keep_io: as
        of register_forward_pre_hook. Returns the handle that removes it. Source: torch.nn.Module;
        keep_io is gradhook's.
        """
        flags = self._flags(with_kwargs=with_kwargs, always_call=always_call, keep_io=keep_io)
        return self._forward_hooks.add(hook, prepend=prepend, flags=flags)

    def register_full_backward_pre_hook(
        self,
        hook: Callable[..., Any],
        prepend: bool = False,
        *,
        host: bool = False,
        keep_io: bool = False,
    ) -> RemovableHandle:
        """`hook(module, grad_output)` once a call and backward run, when all gradients of the
        outputs have arrived; a tuple replaces them, before anything inside the module has run.

        grad_output: a tuple, an entry an output, None where none arrived. host: the hook observes
        NumPy copies, which the device does not wait for. keep_io: as of
        register_forward_pre_hook. Returns the handle that removes it. Errors: RuntimeError or
        TypeError in the backward for a result that does not fit. Source: torch.nn.Module; host
        and keep_io are gradhook's.
        """
        flags = self._flags(keep_io=keep_io)
        return self._backward_pre_hooks.add(host_hook(hook, host), prepend=prepend, flags=flags)

    def register_full_backward_hook(
        self,
        hook: Callable[..., Any],
        prepend: bool = False,
        with_kwargs: bool = False,
        *,
        when: str = "auto",
        host: bool = False,
        keep_io: bool = False,
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` once a call and backward run, when all gradients
        of the inputs are known; a tuple replaces grad_input. grad_output is as the pre-hooks left
        it.

        grad_input: a tuple, an entry a positional argument, None for one that is no Tensor, needs
        no gradient or got none. A container of tensors has the same container of gradients.
        with_kwargs: `hook(module, grad_args, grad_kwargs, grad_output)`, which returns None,
        new_args or (new_args, new_kwargs).
        when: "auto", as PyTorch: with the gradients of the inputs, or of the outputs when no input
        requires grad. "outputs": with those of the outputs, grad_input all None. "complete": after
        every node made within the call has run, so that the parameters' gradients of this call are
        in their .grad. Hooks of the latter two replace nothing and return None.
        host: the hook observes NumPy copies, which the device does not wait for. keep_io: as of
        register_forward_pre_hook. Returns the handle that removes it. Errors: RuntimeError beside
        legacy hooks; ValueError for another `when`; RuntimeError or TypeError in the backward for a
        result that does not fit. Source: torch.nn.Module; with_kwargs, when, host and keep_io are
        gradhook's.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(MIXED)
        flags = self._flags(keep_io=keep_io) + full_flags(with_kwargs, when)
        if is_declared(hook) and (with_kwargs or when != "auto"):
            raise TypeError(
                f"a device hook runs with the accumulation of grad_input; found {hook!r} with "
                f"with_kwargs={with_kwargs}, when={when!r}, expected the defaults"
            )
        handle = self._backward_hooks.add(host_hook(hook, host), prepend=prepend, flags=flags)
        self._is_full_backward_hook = True
        return handle

    def register_params_ready_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, params)` once a backward run, when every gradient that the run has for the
        module's parameters (and its children's) is in .grad and its post-accumulate hooks have
        run.

        params: a tuple of the parameters that the run reaches; a run that reaches none is no
        event, nor is `autograd.grad`. Returns the handle that removes it. Errors: RuntimeError in
        the backward when it returns anything. Has no PyTorch counterpart.
        """
        Wanted.modules.add(self)
        return self._params_ready_hooks.add(hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The legacy form: `hook(module, grad_input, grad_output)` of the node that made the
        output.

        Errors: RuntimeError beside full backward hooks. Use register_full_backward_hook instead.
        Source: torch.nn.Module.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(MIXED)
        handle = self._backward_hooks.add(hook, flags=("legacy",))
        self._is_full_backward_hook = False
        return handle
