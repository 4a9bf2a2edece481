"""Parametrizations: a parameter or buffer as a function of others, computed when it is read."""

from __future__ import annotations

from typing import Any

from gradhook.modes import no_grad
from gradhook.nn.container import ModuleDict
from gradhook.nn.module import Module
from gradhook.nn.parameter import Parameter
from gradhook.nn.utils.parametrization_list import ParametrizationList, move_to, put_tensor
from gradhook.nn.utils.parametrized_class import base_of, cached, lists_of, put_class
from gradhook.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make `module.<tensor_name>` what parametrization computes from it, each time it is read.

    The tensor moves to `module.parametrizations.<tensor_name>.original` and stays the same object,
    so an optimizer that has it goes on. A parametrization may have a `right_inverse(tensor)`, which
    the start value and each assignment to the tensor go through; the first one's may return several
    tensors, its forward's arguments, which become `original0`, `original1`, ... (new Parameters).
    Further parametrizations are applied to the result of those before. Hooks of the module stay,
    and hooks of the parametrization are called when the tensor is read.

    unsafe: it may change shape and dtype, which is not checked. Returns module.
    Errors: ValueError with PyTorch's texts; then the module is as it was.
    Source: torch.nn.utils.parametrize.register_parametrization.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        made: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        made.append(parametrization)
        made.unsafe |= unsafe
    else:
        _check_known(module, tensor_name)
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        _put_list(module, tensor_name, made)
    return module


def _check_known(module: Module, name: str) -> None:
    if name not in module._buffers and name not in module._parameters:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{name}'"
        )


def _put_list(module: Module, name: str, made: ParametrizationList) -> None:
    """Put the list and the property of a tensor in the place of the tensor, where there is one."""
    if hasattr(module, name):
        delattr(module, name)
    lists = lists_of(module)
    if lists is None:
        lists = module.parametrizations = ModuleDict()
    lists[name] = made
    put_class(module, lists)


def _check_further(module: Module, name: str, parametrization: Module) -> None:
    """Errors: ValueError unless forward and right_inverse keep shape and dtype."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(after, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}"
        )
    for what in ("dtype", "shape"):
        if getattr(inverse, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(inverse, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether this tensor of the module is parametrized; None: whether any is.

    Source: torch.nn.utils.parametrize.is_parametrized.
    """
    lists = lists_of(module)
    if lists is None:
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make `module.<tensor_name>` a plain parameter or buffer again, and return module.

    leave_parametrized: with the value it has now; else with that of its original. The object stays
    the original one; where there are several originals it is new (tell the optimizer).
    Errors: ValueError for a tensor that is not parametrized, and for leave_parametrized=False with
    several originals. Source: torch.nn.utils.parametrize.remove_parametrizations.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    lists: Any = module.parametrizations
    made = lists[tensor_name]
    if made.is_tensor:
        tensor = made.original
        if leave_parametrized:
            with no_grad():
                move_to(tensor, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    del lists[tensor_name]
    put_class(module, lists)
    put_tensor(module, tensor_name, tensor)
    if not lists:
        del module.parametrizations
    return module


def type_before_parametrizations(module: Module) -> type:
    """The type of the module as it was before it had parametrizations.

    Source: torch.nn.utils.parametrize.type_before_parametrizations.
    """
    return base_of(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Register the parametrizations of one module on another, with their originals; both then share
    them, and the tensor of from_module stays as it is. None: those of all its tensors.

    Returns to_module. Errors: ValueError for a tensor that is neither parameter nor buffer there.
    Source: torch.nn.utils.parametrize.transfer_parametrizations_and_params.
    """
    if not is_parametrized(from_module):
        return to_module
    given: Any = from_module.parametrizations
    for name in list(given) if tensor_name is None else [tensor_name]:
        if not is_parametrized(to_module, name):
            if hasattr(to_module, name):
                _check_known(to_module, name)
            _put_list(to_module, name, given[name].sharing())
            continue
        for parametrization in given[name]:
            register_parametrization(to_module, name, parametrization)
        taken: Any = to_module.parametrizations
        for original, tensor in [*given[name]._parameters.items(), *given[name]._buffers.items()]:
            setattr(taken[name], original, tensor)
    return to_module
