"""Modules as functions of their parameters. Source of names: torch.func."""

from gradhook.func.functional_call import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
