"""load_state_dict: first every module checks, then everything is copied, so an error changes
nothing.

A module with a load post-hook has its entries copied before the hook runs, which sees them; these
copies are taken back when the load fails after all.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradhook.modes import no_grad
from gradhook.nn.module_state import EXTRA, ModuleState
from gradhook.nn.parameter import Parameter, is_lazy
from gradhook.tensor import Tensor

Undo = Callable[[], Any]


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict did not find, and what it could not place."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


@dataclass
class Copy:
    """A value to be copied into a parameter or buffer."""

    target: Tensor
    value: Tensor
    key: str

    def run(self) -> None:
        with no_grad():
            self.target.copy_(self.value)

    def may_fail(self) -> bool:
        """Whether the write can fail after its check; all are then made revocable, for a copy of
        what they overwrite.
        """
        return self.target.is_inference() or not self.target.is_contiguous()

    def undo(self) -> Undo:
        old = Copy(self.target, self.target.detach().clone(), self.key)
        return old.run


@dataclass
class Assign:
    """A value to be put in a parameter's or buffer's place."""

    module: Any
    name: str
    target: Tensor
    value: Tensor
    key: str

    def run(self) -> None:
        value = self.value
        if isinstance(self.target, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(self.target.requires_grad)
            else:
                value = Parameter(value, requires_grad=self.target.requires_grad)
        setattr(self.module, self.name, value)

    def may_fail(self) -> bool:
        """Registration hooks and __setattr__ are the user's."""
        return True

    def undo(self) -> Undo:
        owner = self.module.__dict__
        found = owner["_parameters"] if self.name in owner["_parameters"] else owner["_buffers"]
        return lambda: found.__setitem__(self.name, self.target)


@dataclass
class SetExtra:
    """An extra state to be given to its module."""

    module: Any
    state: Any
    key: str

    def run(self) -> None:
        self.module.set_extra_state(self.state)

    def may_fail(self) -> bool:
        """set_extra_state is the user's."""
        return True

    def undo(self) -> Undo:
        """Give the module back the attributes and members it has now; what set_extra_state changes
        within them stays.
        """
        own = self.module.__dict__
        members = {name: dict(own[name]) for name in ("_parameters", "_buffers", "_modules")}
        before = {**own, **members}

        def restore() -> None:
            own.clear()
            own.update(before)

        return restore


class Errors(list[str]):
    """The error texts of one load; `writes` are what is still to do, `undo` takes back what was
    done before it was known that there are none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Copy | Assign | SetExtra] = []
        self.undo: list[Undo] = []

    def write(self, revocable: bool) -> None:
        """Do what is to do; what fails becomes an error text, in PyTorch's words."""
        writes, self.writes = self.writes, []
        for write in writes:
            if revocable:
                self.undo.append(write.undo())
            try:
                write.run()
            except Exception as error:
                if isinstance(write, SetExtra):
                    raise
                if revocable and isinstance(write, Copy):
                    self.undo.pop()  # it was refused: there is nothing to take back
                self.append(
                    f'While copying the parameter named "{write.key}", whose dimensions in the '
                    f"model are {write.target.size()} and whose dimensions in the checkpoint are "
                    f"{write.value.size()}, an exception occurred : {error.args}."
                )

    def take_back(self) -> None:
        """Undo, the last write first."""
        while self.undo:
            self.undo.pop()()


class ModuleLoad(ModuleState):
    """The half of Module that loads its state."""

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
        """Run this module's load pre-hooks, check its own entries and note what to copy; no
        descendants. Overridable as in PyTorch.

        What is missing, unexpected or wrong is appended to the lists. Called by load_state_dict the
        copies wait until every module has checked; with a plain list as error_msgs they are made at
        once.
        """
        self._fire_load_pre(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        errors = error_msgs if isinstance(error_msgs, Errors) else Errors()
        own = self._own_state()
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                self._check_entry(name, key, target, state_dict[key], assign, errors)
            elif strict:
                missing_keys.append(key)
        self._load_extra(state_dict, prefix + EXTRA, strict, missing_keys, unexpected_keys, errors)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own):
                        unexpected_keys.append(key)
        if errors is not error_msgs:
            if not errors:
                errors.write(revocable=False)
            error_msgs += errors

    def _check_entry(
        self, name: str, key: str, target: Tensor, value: Any, assign: bool, errors: Errors
    ) -> None:
        """Note the write of one entry, or why it cannot be."""
        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected gradhook.Tensor or '
                f"Tensor-like object from checkpoint but received {type(value)}"
            )
            return
        if is_lazy(target) or is_lazy(value):
            if not is_lazy(target):
                errors.append(
                    f"for {key}: Can't access the shape of an uninitialized parameter or buffer in "
                    "the checkpoint, and the one in the model is initialized. Run the checkpoint's "
                    "model once before saving it"
                )
            elif not is_lazy(value):
                errors.append(
                    f"for {key}: the parameter in the model is uninitialized and its module, "
                    f"<{type(self).__name__}>, is no LazyModuleMixin; materialize it before loading"
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
            errors.writes.append(Assign(self, name, target, value, key))
        else:
            errors.writes.append(Copy(target, value, key))

    def _load_extra(
        self,
        state_dict: Mapping[str, Any],
        key: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        errors: Errors,
    ) -> None:
        if self._has_extra("set_extra_state"):
            if key in state_dict:
                errors.writes.append(SetExtra(self, state_dict[key], key))
                prefix = key.removesuffix(EXTRA)
                below = {k[len(prefix) :].partition(".") for k in state_dict if k != key}
                if any(dot and name not in self._modules for name, dot, _ in below):
                    errors.write(revocable=True)  # it may make the child that these keys are for
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of a state dict into the parameters and buffers of the same names.

        strict: the names must match exactly. assign: take the tensors themselves instead of
        copying. Returns what was missing and unexpected, as load post-hooks left it. Nothing is
        changed when names, sizes or hooks are in error.
        Errors: TypeError when it is no mapping of names; RuntimeError lists missing and unexpected
        names and sizes that differ, in PyTorch's words; what hooks raise.
        """
        check_is_state(state_dict)
        keys = IncompatibleKeys([], [])
        errors = Errors()
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]
        try:
            _load(self, state, "", Loading(metadata or {}, assign, keys, errors))
            if strict:
                errors[:0] = [
                    f"{kind} key(s) in state_dict: " + ", ".join(f'"{k}"' for k in some) + ". "
                    for kind, some in (("Missing", keys[0]), ("Unexpected", keys[1]))
                    if some
                ]
            if not errors:
                errors.write(revocable=any(write.may_fail() for write in errors.writes))
            if errors:
                text = "\n\t".join(errors)
                raise RuntimeError(
                    f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
                )
        except BaseException:
            errors.take_back()
            raise
        return keys


@dataclass(slots=True)
class Loading:
    """What all modules of one load share."""

    metadata: Mapping[str, Any]
    assign: bool
    keys: IncompatibleKeys
    errors: Errors


def _load(module: Any, state: Any, prefix: str, loading: Loading) -> None:
    """Check a module, then its children, then run its load post-hooks."""
    local_metadata = dict(loading.metadata.get(prefix[:-1], {}))
    if loading.assign:
        local_metadata["assign_to_params_buffers"] = True
    keys, errors = loading.keys, loading.errors
    module._load_from_state_dict(
        state, prefix, local_metadata, True, keys.missing_keys, keys.unexpected_keys, errors
    )
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {k: v for k, v in state.items() if k.startswith(below)}
            _load(child, part, below, loading)
    if module.__dict__.get("_load_state_dict_post_hooks"):
        errors.write(revocable=True)
        module._fire_load_post(keys, prefix)


def check_is_state(state_dict: Any) -> None:
    """Errors: TypeError unless it is a mapping whose keys are names."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"Expected state_dict to be dict-like, got {type(state_dict)}. Pass what state_dict() "
            "returned, or gradhook.load of the file that holds it"
        )
    wrong = next((k for k in state_dict if not isinstance(k, str)), None)
    if wrong is not None:
        raise TypeError(
            f"Expected state_dict to map names to tensors, got a key {wrong!r} of {type(wrong)}. "
            "Pass what a Module's state_dict() returned"
        )
