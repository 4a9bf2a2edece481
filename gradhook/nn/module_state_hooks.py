"""The hooks of state_dict and load_state_dict: their tables, registration and firing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gradhook.autograd.hook_notes import hook_name, note_owner
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.owner import HookOwner, LazyTable, table_of
from gradhook.hooks.registry import Entry

PUBLIC = "must_return_none"
TWICE = (
    "Cannot register the same function as the state dict post hook that was previously registered "
    "via register_state_dict_post_hook; remove that one first, or wrap the function"
)


class ModuleStateHooks(HookOwner):
    """The half of Module about the hooks of its state; they are kept by deepcopy and pickle.

    What a hook is called with goes with it in the table as a flag, so any callable will do, bound
    methods too. Source of names and order: torch.nn.Module.
    """

    _state_dict_pre_hooks = LazyTable("state_dict_pre")
    _state_dict_hooks = LazyTable("state_dict_post")
    _load_state_dict_pre_hooks = LazyTable("load_state_dict_pre")
    _load_state_dict_post_hooks = LazyTable("load_state_dict_post")

    # ---- registration ----------------------------------------------------------------------
    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before state_dict saves this module; a parent's before
        its children's. What it returns is ignored. Returns the handle that removes it.
        """
        return self._state_dict_pre_hooks.add(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata) -> None` after state_dict saved this
        module and all below; it edits the state_dict in place.

        Errors: state_dict raises RuntimeError when it returns anything.
        """
        handle = self._state_dict_hooks.add(hook, flags=(PUBLIC,))
        with contextlib.suppress(AttributeError):  # PyTorch's mark; a bound method takes none
            hook._from_public_api = True  # type: ignore[attr-defined]
        return handle

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As register_state_dict_post_hook, but a result of the root's hook replaces the
        state_dict. Errors: RuntimeError for a function that is registered with that one.
        """
        entries = self._state_dict_hooks.items_snapshot()
        if any(PUBLIC in flags and known == hook for _, known, flags in entries):
            raise RuntimeError(TWICE)
        return self._state_dict_hooks.add(hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` before load_state_dict reads this module's entries; it may edit state_dict and
        append to the lists. What it returns is ignored. Returns the handle that removes it. Source:
        torch.nn.Module.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As register_load_state_dict_pre_hook; the hook gets no module unless with_module."""
        return self._load_state_dict_pre_hooks.add(
            hook, flags=("with_module",) if with_module else ()
        )

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], *, with_prefix: bool = False
    ) -> RemovableHandle:
        """`hook(module, incompatible_keys) -> None` after load_state_dict read this module and all
        below; it sees the loaded values and may edit the lists `missing_keys`, `unexpected_keys`.

        The lists are those of the whole load so far, as in PyTorch. with_prefix: `hook(module,
        incompatible_keys, prefix)`, and the lists hold the keys under this module's prefix only.
        Returns the handle that removes it. Errors: load_state_dict raises AssertionError when it
        returns anything. Source: torch.nn.Module; with_prefix is gradhook's.
        """
        return self._load_state_dict_post_hooks.add(
            hook, flags=("with_prefix",) if with_prefix else ()
        )

    # ---- firing ----------------------------------------------------------------------------
    def _state_hooks(self, table: str) -> tuple[Entry, ...]:
        hooks = self.__dict__.get(table)
        return table_of(hooks).items_snapshot() if hooks else ()

    def _run_state_hook(self, kind: str, hook: Any, *args: Any) -> Any:
        try:
            return hook(*args)
        except BaseException as error:
            note_owner(error, kind, hook, self)
            raise

    def _fire_state_dict_pre(self, prefix: str, keep_vars: bool) -> None:
        for _, hook, _ in self._state_hooks("_state_dict_pre_hooks"):
            self._run_state_hook("state_dict pre-hook", hook, self, prefix, keep_vars)

    def _fire_state_dict_post(self, state: Any, prefix: str, local_metadata: Any) -> Any:
        """Every state_dict post-hook; the state_dict, or what a private hook put in its place."""
        for _, hook, flags in self._state_hooks("_state_dict_hooks"):
            args = (self, state, prefix, local_metadata)
            result = self._run_state_hook("state_dict post-hook", hook, *args)
            if result is not None and PUBLIC in flags:
                raise RuntimeError(
                    f"state_dict post-hook must return None, but {hook_name(hook)!r} of "
                    f"<{type(self).__name__}> returned a {type(result).__name__}; edit the "
                    "state_dict it is given in place"
                )
            state = state if result is None else result
        return state

    def _fire_load_pre(self, *args: Any) -> None:
        for _, hook, flags in self._state_hooks("_load_state_dict_pre_hooks"):
            given = (self, *args) if "with_module" in flags else args
            self._run_state_hook("load_state_dict pre-hook", hook, *given)

    def _fire_load_post(self, keys: Any, prefix: str) -> None:
        """Every load_state_dict post-hook; keys: the IncompatibleKeys of the load so far."""
        for _, hook, flags in self._state_hooks("_load_state_dict_post_hooks"):
            seen = keys
            given: tuple[Any, ...] = (self, keys)
            if "with_prefix" in flags:
                seen = type(keys)(*([k for k in some if k.startswith(prefix)] for some in keys))
                given = (self, seen, prefix)
            result = self._run_state_hook("load_state_dict post-hook", hook, *given)
            if result is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    f"done inplace; {hook_name(hook)!r} of <{type(self).__name__}> returned a "
                    f"{type(result).__name__}"
                )
            if seen is not keys:
                for whole, part in zip(keys, seen, strict=True):
                    whole[:] = [k for k in whole if not k.startswith(prefix)] + part
