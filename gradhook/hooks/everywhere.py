"""The global hooks: tables whose hooks fire for every module, or for every optimizer."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from gradhook.hooks.owner import table_of
from gradhook.hooks.registry import HookTable


class GlobalTable(HookTable):
    """A table of GlobalModuleHooks, which it tells of every change."""

    __slots__ = ("owner",)

    owner: weakref.ref[GlobalModuleHooks] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.owner = None
        super().__init__(*args, **kwargs)

    def _forget(self) -> None:
        super()._forget()
        owner = None if self.owner is None else self.owner()
        if owner is not None:
            owner.note_change()


BACKWARD = ("full_backward_pre", "full_backward", "legacy_backward")
OF_CALLS = ("forward_pre", "forward", *BACKWARD)


@dataclass(slots=True, weakref_slot=True, eq=False)
class GlobalModuleHooks:
    """One HookTable a kind of module hook; they fire before a module's own hooks of that kind.

    The attributes may be rebound (PyTorch's tests rebind torch.nn.modules.module._global_*), so
    read them at each module call and keep no table. active: whether any hook is registered that a
    module call fires; a call without hooks tests only this. flagged: whether a full backward hook
    among them has flags, or compat("torch") was ever asked for in this process.
    """

    forward_pre: HookTable = field(default_factory=GlobalTable)
    forward: HookTable = field(default_factory=GlobalTable)
    full_backward_pre: HookTable = field(default_factory=GlobalTable)
    full_backward: HookTable = field(default_factory=GlobalTable)
    legacy_backward: HookTable = field(default_factory=GlobalTable)
    buffer_registration: HookTable = field(default_factory=GlobalTable)
    module_registration: HookTable = field(default_factory=GlobalTable)
    parameter_registration: HookTable = field(default_factory=GlobalTable)
    active: bool = field(default=False, init=False)
    flagged: bool = field(default=False, init=False)
    compat: bool = field(default=False, init=False)

    def __setattr__(self, name: str, value: Any) -> None:
        setter = object.__setattr__
        if isinstance(value, dict):
            table = value if isinstance(value, GlobalTable) else GlobalTable(value)
            table.owner = weakref.ref(self)
            setter(self, name, table)
            self.note_change()
        else:
            setter(self, name, value)

    def note_change(self) -> None:
        """Bring `active` and `flagged` up to date."""
        object.__setattr__(self, "active", self.any)
        tables = [getattr(self, name, None) for name in BACKWARD]
        flagged = any(t is not None and t.all_flags for t in tables)
        object.__setattr__(self, "flagged", flagged or getattr(self, "compat", False))

    def see_compat(self, on: bool) -> None:
        """Module calls have to ask for the mode from now on."""
        if on:
            self.compat = True
            self.note_change()

    @property
    def any(self) -> bool:
        """Whether any global hook of module calls is registered."""
        return any(getattr(self, name, None) for name in OF_CALLS)

    @property
    def any_backward(self) -> bool:
        """Whether a module call needs barriers or a legacy hook on account of a global hook."""
        return any(getattr(self, name, None) for name in BACKWARD)


@dataclass(slots=True)
class GlobalOptimizerHooks:
    """One HookTable a kind of optimizer hook that fires for every optimizer; may be rebound."""

    step_pre: HookTable = field(default_factory=HookTable)
    step_post: HookTable = field(default_factory=HookTable)


everywhere = GlobalModuleHooks()
every_optimizer = GlobalOptimizerHooks()


def global_table(owner: Any, name: str) -> property:
    """A `_global_*` attribute of a Python module that is the table `name` of `owner`; a dict that
    is assigned to it becomes the table.
    """

    def get(self: Any) -> HookTable:
        found: HookTable = getattr(owner, name)
        return found

    def put(self: Any, value: Any) -> None:
        setattr(owner, name, table_of(value))

    return property(get, put)
