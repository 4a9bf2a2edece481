"""Calling a module with other parameters and buffers than its own.

Source: torch.nn.utils.stateless, torch.func.functional_call.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradhook.nn.module import Module
from gradhook.nn.utils.parametrized_class import GIVEN, cached_apart, lists_of
from gradhook.tensor import Tensor

__all__ = ["functional_call"]

_MISSING: Any = object()


def _check_tensor(value: Any, what: str) -> None:
    if value is not None and value is not _MISSING and not isinstance(value, Tensor):
        raise TypeError(f"{what} is not an instance of gradhook.Tensor")


def _place(module: Module, name: str) -> dict[str, Any] | None:
    """The dict that holds a parameter, buffer, or what stands for a parametrized tensor; None for
    a plain attribute.
    """
    for registry in (module._parameters, module._buffers):
        if name in registry:
            return registry
    return None


def _swap(module: Module, name: str, value: Any) -> Any:
    """Put a tensor, None or _MISSING in a member's place; what was there."""
    _check_tensor(value, f"{value}")
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    lists = lists_of(module)
    if lists is not None and name in lists:
        own, name = lists[name].__dict__, GIVEN
    else:
        found = _place(module, name)
        if found is None:
            return _swap_attribute(module, name, value)
        own = found
    before = own.get(name, _MISSING)
    if value is _MISSING:
        own.pop(name, None)
    else:
        own[name] = value
    return before


def _swap_attribute(module: Module, name: str, value: Any) -> Any:
    before = getattr(module, name, _MISSING)
    _check_tensor(before, f"attribute `{name}`: {before}")
    if value is not _MISSING:
        setattr(module, name, value)
    elif before is not _MISSING:
        delattr(module, name)
    return before


class _Members:
    """The tensors of a module by dotted name, modules looked up once."""

    def __init__(self, module: Module) -> None:
        self.found: dict[str, Module] = {"": module}

    def module(self, path: str) -> Module:
        """Errors: AttributeError, TypeError with PyTorch's texts."""
        if path not in self.found:
            above, _, name = path.rpartition(".")
            owner = self.module(above)
            try:
                module = getattr(owner, name)
            except AttributeError as error:
                raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from error
            if not isinstance(module, Module):
                raise TypeError(
                    f"submodule `{path}`: {module} is not an instance of gradhook.nn.Module"
                )
            self.found[path] = module
        return self.found[path]

    def swap(self, name: str, value: Any) -> Any:
        """Put a value in a member's place; what was there."""
        path, _, member = name.rpartition(".")
        return _swap(self.module(path), member, value)


def _named_tensors(module: Module) -> dict[str, Tensor]:
    named = dict(module.named_parameters(remove_duplicate=False))
    return {**named, **dict(module.named_buffers(remove_duplicate=False))}


def _with_tied(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """given, and for each name in it the names of the module's same tensor.

    Errors: ValueError where it has different tensors for them.
    """
    names: dict[int, list[str]] = {}
    for name, tensor in _named_tensors(module).items():
        names.setdefault(id(tensor), []).append(name)
    completed = dict(given)
    for tied in names.values():
        known = [name for name in tied if name in given]
        if len(tied) < 2 or not known:
            continue
        if any(given[name] is not given[known[0]] for name in known):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. "
                "Consider using tie_weights=False"
            )
        completed |= dict.fromkeys(tied, given[known[0]])
    return completed


def _check_names(module: Module, given: dict[str, Any]) -> None:
    """Errors: RuntimeError unless these are the names of all tensors of the module."""
    known = set(_named_tensors(module))
    errors = [
        f"{kind} key(s): {', '.join(map(repr, sorted(names)))}."
        for kind, names in (("Unexpected", set(given) - known), ("Missing", known - set(given)))
        if names
    ]
    if errors:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(errors)
        )


@contextmanager
def reparametrized(
    module: Module, dicts: list[dict[str, Any]], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Within, the module has the given tensors. Afterwards it has its own again, whatever happened,
    and the dicts those that the module put in the place of the given ones.
    """
    given = {name: value for some in dicts for name, value in some.items()}
    swapped = _with_tied(module, given) if tie_weights else given
    if strict:
        _check_names(module, swapped)
    members = _Members(module)
    before: list[tuple[str, Any]] = []
    try:
        for name, value in swapped.items():
            before.append((name, members.swap(name, value)))
        with cached_apart():
            yield
    finally:
        after = {name: members.swap(name, value) for name, value in reversed(before)}
        for some in dicts:
            for name in some:
                if after.get(name, _MISSING) is not _MISSING:
                    some[name] = after[name]


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any] | list[dict[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    given = parameters_and_buffers
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    dicts = [given] if isinstance(given, dict) else given
    with reparametrized(module, dicts, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """gradhook.func.functional_call under its older name; it warns.

    Source: torch.nn.utils.stateless.functional_call.
    """
    warnings.warn(
        "`gradhook.nn.utils.stateless.functional_call` is deprecated. Please use "
        "`gradhook.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
