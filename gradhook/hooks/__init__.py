"""Hook handles and tables: one handle class and one table class for every kind of hook; the call a
hook fires for, and one hook on many modules.
"""

from gradhook.hooks.attach import HandleGroup, attach
from gradhook.hooks.calls import Call, current_call
from gradhook.hooks.everywhere import GlobalModuleHooks, everywhere
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.notices import HookLostWarning, HookNotFiringWarning, HookWarning
from gradhook.hooks.owner import RegisteredHook
from gradhook.hooks.registry import Hook, HookTable

__all__ = [
    "Call",
    "GlobalModuleHooks",
    "HandleGroup",
    "Hook",
    "HookLostWarning",
    "HookNotFiringWarning",
    "HookTable",
    "HookWarning",
    "RegisteredHook",
    "RemovableHandle",
    "attach",
    "current_call",
    "everywhere",
]
