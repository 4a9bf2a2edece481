"""The hooks of optimizers: their tables, registration and firing, around `step` and the state."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gradhook.autograd.hook_notes import hook_name, note_owner
from gradhook.hooks.everywhere import every_optimizer
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.owner import HookOwner, LazyTable, RegisteredHook, table_of
from gradhook.hooks.registry import HookTable

Hook = Callable[..., Any]


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` before every step of every optimizer, before its own hooks.

    As Optimizer.register_step_pre_hook.
    """
    return every_optimizer.step_pre.add(hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` after every step of every optimizer, after its own hooks.

    As Optimizer.register_step_post_hook.
    """
    return every_optimizer.step_post.add(hook)


class OptimizerHooks(HookOwner):
    """The half of Optimizer about its hooks; deepcopy keeps them, pickle does not.

    A subclass's `step` gets its hooks when the class is made; where it calls super().step(), they
    run once. Order: global pre, own pre, step, own post, global post.
    Source of names and order: torch.optim.Optimizer.
    """

    _optimizer_step_pre_hooks = LazyTable("step_pre")
    _optimizer_step_post_hooks = LazyTable("step_post")
    _optimizer_state_dict_pre_hooks = LazyTable("state_dict_pre")
    _optimizer_state_dict_post_hooks = LazyTable("state_dict_post")
    _optimizer_load_state_dict_pre_hooks = LazyTable("load_state_dict_pre")
    _optimizer_load_state_dict_post_hooks = LazyTable("load_state_dict_post")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._hook_step()

    @classmethod
    def _hook_step(cls) -> None:
        """Wrap the class's step, wherever it comes from, unless it is wrapped already."""
        step = getattr(cls, "step", None)
        if callable(step) and not hasattr(step, "hooked"):
            cls.step = hooked(step)  # type: ignore[attr-defined]

    # ---- registration ----------------------------------------------------------------------
    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before each step; args[0] is the optimizer.

        It returns None, or a pair of the new args (the optimizer first) and kwargs. Returns the
        handle that removes it. Errors: step raises RuntimeError for any other result. Source:
        torch.optim.Optimizer.
        """
        return self._optimizer_step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after each step, with what step was called with;
        not after one that raised. What it returns is ignored. Returns the handle that removes it.
        """
        return self._optimizer_step_post_hooks.add(hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer)` before state_dict; what it returns is ignored. prepend: before the
        others of its kind. Returns the handle that removes it.
        """
        return self._optimizer_state_dict_pre_hooks.add(hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer, state_dict)` after state_dict; a dict that it returns is the result, and
        what the next hook gets.

        Errors: state_dict raises TypeError when it returns anything but a dict or None.
        """
        return self._optimizer_state_dict_post_hooks.add(hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` before load_state_dict, with a shallow copy of what is
        loaded; a dict that it returns is loaded instead, and what the next hook gets.

        Errors: load_state_dict raises TypeError when it returns anything but a dict or None.
        """
        return self._optimizer_load_state_dict_pre_hooks.add(hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` after load_state_dict; what it returns is ignored."""
        return self._optimizer_load_state_dict_post_hooks.add(hook, prepend=prepend)

    def hooks(self, kind: str | None = None) -> list[RegisteredHook]:
        """The hooks of this optimizer, each with kind, id and hook, kinds together and in firing
        order; kind: only those ("step_pre", "load_state_dict_post", ...). Global ones are in none.

        Errors: ValueError for a kind that is none.
        """
        self._check_kind(kind)
        return [entry for _, entry in self._entries(kind)]

    def remove_hooks(self, kind: str | None = None) -> int:
        """Remove all hooks of one kind (None: of every kind); returns how many there were.

        Errors: ValueError for a kind that is none.
        """
        self._check_kind(kind)
        return self._removed(kind)

    # ---- firing ----------------------------------------------------------------------------
    def _run(self, kind: str, table: str, *args: Any) -> Any:
        """Call every hook of a table; the last argument is what a hook's dict replaces."""
        hooks = self.__dict__.get(table)
        for hook in table_of(hooks).snapshot() if hooks else ():
            result = _called(kind, hook, self, *args)
            if args and result is not None:
                if not isinstance(result, dict):
                    raise TypeError(
                        f"{kind} {hook_name(hook)!r} of {type(self).__name__} returned a "
                        f"{type(result).__name__}, expected a state_dict or None"
                    )
                args = (result,)
        return args[0] if args else None

    def _fire_state_dict_pre(self) -> None:
        self._run("state_dict pre-hook", "_optimizer_state_dict_pre_hooks")

    def _fire_state_dict_post(self, state: dict[str, Any]) -> dict[str, Any]:
        table = "_optimizer_state_dict_post_hooks"
        made: dict[str, Any] = self._run("state_dict post-hook", table, state)
        return made

    def _fire_load_pre(self, state: dict[str, Any]) -> Any:
        return self._run("load_state_dict pre-hook", "_optimizer_load_state_dict_pre_hooks", state)

    def _fire_load_post(self) -> None:
        self._run("load_state_dict post-hook", "_optimizer_load_state_dict_post_hooks")


def _called(kind: str, hook: Hook, optimizer: Any, *args: Any) -> Any:
    try:
        return hook(optimizer, *args)
    except BaseException as error:
        note_owner(error, kind, hook, optimizer, "optimizer")
        raise


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that runs the step hooks around it, unless it is called within another step of the
    same optimizer, as super().step() is.
    """

    @wraps(step)
    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        own, e = self.__dict__, every_optimizer
        own_pre = own.get("_optimizer_step_pre_hooks")
        own_post = own.get("_optimizer_step_post_hooks")
        if not (own_pre or own_post or e.step_pre or e.step_post) or own.get("_is_stepping"):
            return step(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        for hook in _hooks(e.step_pre, own_pre):
            given, kwargs = _new_arguments(self, hook, given, kwargs)
        own["_is_stepping"] = True
        try:
            result = step(*given, **kwargs)
        finally:
            own["_is_stepping"] = False
        for hook in _hooks(own.get("_optimizer_step_post_hooks"), e.step_post):
            _called("step post-hook", hook, self, given, kwargs)
        return result

    run.hooked = True  # type: ignore[attr-defined]  # PyTorch's mark
    return run


def _hooks(first: HookTable | None, then: HookTable | None) -> tuple[Hook, ...]:
    """The hooks of two tables."""
    if not first:
        return then.snapshot() if then else ()
    return (*first.snapshot(), *then.snapshot()) if then else first.snapshot()


def _new_arguments(
    optimizer: Any, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Run one step pre-hook: the args and kwargs from then on."""
    result = _called("step pre-hook", hook, optimizer, args, kwargs)
    if result is None:
        return args, kwargs
    stem = (
        f"step pre-hook {hook_name(hook)!r} of {type(optimizer).__name__} must return None or a "
        "tuple of (new_args, new_kwargs), but got "
    )
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{stem}{result}.")
    new_args, new_kwargs = result
    if not isinstance(new_args, tuple | list) or not isinstance(new_kwargs, dict):
        raise RuntimeError(
            f"{stem}a {type(new_args).__name__} and a {type(new_kwargs).__name__}; expected a "
            "tuple and a dict"
        )
    if not new_args or new_args[0] is not optimizer:
        raise RuntimeError(f"{stem}new_args {new_args} that do not begin with the optimizer")
    return tuple(new_args), new_kwargs
