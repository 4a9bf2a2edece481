"""The global module hooks: tables whose hooks fire for every module."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradhook.hooks.registry import HookTable


@dataclass(slots=True)
class GlobalModuleHooks:
    """One HookTable a kind of module hook; they fire before a module's own hooks of that kind.

    The attributes may be rebound (PyTorch's tests rebind torch.nn.modules.module._global_*), so
    read them at each module call and keep no table.
    """

    forward_pre: HookTable = field(default_factory=HookTable)
    forward: HookTable = field(default_factory=HookTable)
    full_backward_pre: HookTable = field(default_factory=HookTable)
    full_backward: HookTable = field(default_factory=HookTable)
    legacy_backward: HookTable = field(default_factory=HookTable)

    @property
    def any(self) -> bool:
        """Whether any global hook is registered; a module call without hooks tests only this."""
        return bool(
            self.forward_pre
            or self.forward
            or self.full_backward
            or self.full_backward_pre
            or self.legacy_backward
        )

    @property
    def any_backward(self) -> bool:
        """Whether a module call needs barriers or a legacy hook on account of a global hook."""
        return bool(self.full_backward or self.full_backward_pre or self.legacy_backward)


everywhere = GlobalModuleHooks()
