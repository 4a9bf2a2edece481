"""Hook handles and tables: one handle class and one table class for every kind of hook."""

from gradhook.hooks.everywhere import GlobalModuleHooks, everywhere
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.registry import Hook, HookTable

__all__ = ["GlobalModuleHooks", "Hook", "HookTable", "RemovableHandle", "everywhere"]
