"""state_dict and load_state_dict: first every module checks, then everything is copied, so an error
changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from gradhook.modes import no_grad
from gradhook.nn.module_walk import ModuleWalk
from gradhook.nn.parameter import Parameter
from gradhook.tensor import Tensor

EXTRA = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict did not find, and what it could not place."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Errors(list[str]):
    """The error texts of one load; `copies` are what to do when there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[Callable[[], None]] = []


class ModuleState(ModuleWalk):
    """The state_dict half of Module."""

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
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra("get_extra_state"):
            destination[prefix + EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Names to tensors of all parameters and persistent buffers, in an OrderedDict with
        `_metadata`.

        The tensors share memory with the module; keep_vars: they are the very Parameters.
        Positional arguments are PyTorch's old (destination, prefix, keep_vars).
        """
        if args:
            old: list[Any] = [destination, prefix, keep_vars]
            old[: len(args)] = args
            destination, prefix, keep_vars = old
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = {"version": self._version}
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        return destination

    def _own_state(self) -> dict[str, Tensor]:
        persistent = {
            k: b for k, b in self._buffers.items() if k not in self._non_persistent_buffers_set
        }
        return {k: t for k, t in {**self._parameters, **persistent}.items() if t is not None}

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Check this module's own entries and note what to copy; no descendants.

        Overridable as in PyTorch.

        What is missing, unexpected or wrong is appended to the lists. Called by load_state_dict the
        copies wait until every module has checked; with a plain list as error_msgs they are made at
        once.
        """
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        copies = error_msgs.copies if isinstance(error_msgs, Errors) else []
        own = self._own_state()
        for name, target in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            self._check_entry(name, key, target, state_dict[key], assign, error_msgs, copies)
        self._load_extra(state_dict, prefix + EXTRA, strict, missing_keys, unexpected_keys, copies)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own):
                        unexpected_keys.append(key)
        if not isinstance(error_msgs, Errors) and not error_msgs:
            for copy in copies:
                copy()

    def _check_entry(
        self,
        name: str,
        key: str,
        target: Tensor,
        value: Any,
        assign: bool,
        errors: list[str],
        copies: list[Callable[[], None]],
    ) -> None:
        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected gradhook.Tensor or '
                "Tensor-like object from "
                f"checkpoint but received {type(value)}"
            )
            return
        if target.ndim == 0 and value.ndim == 1 and len(value) == 1:
            value = value[0]  # PyTorch's checkpoints from before 0-d tensors
        if value.shape != target.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
        elif assign:
            copies.append(lambda: self._assign(name, target, value))
        else:
            copies.append(lambda: _copy(target, value))

    def _assign(self, name: str, target: Tensor, value: Tensor) -> None:
        if isinstance(target, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(target.requires_grad)
            else:
                value = Parameter(value, requires_grad=target.requires_grad)
        setattr(self, name, value)

    def _load_extra(
        self,
        state_dict: Mapping[str, Any],
        key: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        copies: list[Callable[[], None]],
    ) -> None:
        if self._has_extra("set_extra_state"):
            if key in state_dict:
                copies.append(lambda: self.set_extra_state(state_dict[key]))
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of a state dict into the parameters and buffers of the same names.

        strict: the names must match exactly. assign: take the tensors themselves instead of
        copying. Returns what was missing and unexpected. Nothing is changed when there is an error.
        Errors: TypeError when it is no mapping of names; RuntimeError lists missing and unexpected
        names and sizes that differ, in PyTorch's words.
        """
        check_is_state(state_dict)
        missing: list[str] = []
        unexpected: list[str] = []
        errors = Errors()
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]

        def load(module: Any, local: Any, prefix: str) -> None:
            local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                local, prefix, local_metadata, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(below)}, below)

        load(self, state, "")
        if strict:
            for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    shown = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(0, f"{kind} key(s) in state_dict: {shown}. ")
        if errors:
            text = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
            )
        for copy in errors.copies:
            copy()
        return IncompatibleKeys(missing, unexpected)


def _copy(target: Tensor, value: Tensor) -> None:
    with no_grad():
        target.copy_(value)


def check_is_state(state_dict: Any) -> None:
    """Errors: TypeError unless it is a mapping whose keys are names."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"Expected state_dict to be dict-like, got {type(state_dict)}. Pass what state_dict() "
            "returned, for example pickle.load of the file that holds it"
        )
    wrong = next((k for k in state_dict if not isinstance(k, str)), None)
    if wrong is not None:
        raise TypeError(
            f"Expected state_dict to map names to tensors, got a key {wrong!r} of {type(wrong)}. "
            "Pass what a Module's state_dict() returned"
        )
