"""state_dict: what a module's state is, and how it is saved."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gradhook.nn.module_state_hooks import ModuleStateHooks
from gradhook.nn.module_walk import ModuleWalk
from gradhook.nn.parameter import is_lazy
from gradhook.tensor import Tensor

EXTRA = "_extra_state"


class ModuleState(ModuleStateHooks, ModuleWalk):
    """The half of Module that saves its state; the other half is in module_load."""

    _version: int = 1
    _non_persistent_buffers_set: set[str]

    def get_extra_state(self) -> Any:
        """State beyond parameters and buffers; a module that overrides it also overrides
        set_extra_state.
        """
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what get_extra_state returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def _has_extra(self, name: str) -> bool:
        return getattr(type(self), name, None) is not getattr(ModuleState, name)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters, persistent buffers and extra state under `prefix`."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                kept = keep_vars or is_lazy(parameter)
                destination[prefix + name] = parameter if kept else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                kept = keep_vars or is_lazy(buffer)
                destination[prefix + name] = buffer if kept else buffer.detach()
        if self._has_extra("get_extra_state"):
            destination[prefix + EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Names to tensors of all parameters and persistent buffers, in an OrderedDict with
        `_metadata`.

        The tensors share memory with the module; keep_vars: they are the very Parameters.
        Positional arguments are PyTorch's old (destination, prefix, keep_vars). Pre-hooks run
        first, post-hooks after the children.
        """
        if args:
            old: list[Any] = [destination, prefix, keep_vars]
            old[: len(args)] = args
            destination, prefix, keep_vars = old
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        self._fire_state_dict_pre(prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        return self._fire_state_dict_post(destination, prefix, local_metadata)

    def _own_state(self) -> dict[str, Tensor]:
        persistent = {
            k: b for k, b in self._buffers.items() if k not in self._non_persistent_buffers_set
        }
        return {k: t for k, t in {**self._parameters, **persistent}.items() if t is not None}
