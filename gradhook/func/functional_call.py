"""A call of a module with given parameters, and the parameters of several modules in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradhook.functions import stack
from gradhook.nn.module import Module
from gradhook.nn.utils.stateless import _functional_call
from gradhook.tensor import Tensor


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Any] | Sequence[dict[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with these parameters and buffers in place of its own, which it has
    again afterwards, after an error, too. Hooks fire as in any call, gradients go to the given
    tensors.

    parameter_and_buffer_dicts: tensors by dotted name, those of named_parameters() and
    named_buffers(), or several such dicts with different names. A module that writes to a given
    buffer in place writes to the given tensor; one that assigns another puts it in the dict. The
    name of a parametrized tensor (`weight`) stands for the result of its parametrizations,
    `parametrizations.weight.original` for what they start from. args: a tuple, or one argument.
    tie_weights: a tensor goes to all names that are the same tensor in the module; strict: all
    tensors of the module, and no others, must be given.

    Errors: ValueError for dicts that share a name, and for different tensors for tied names;
    RuntimeError with strict. Source: torch.func.functional_call.
    """
    dicts: list[Any]
    if isinstance(parameter_and_buffer_dicts, dict):
        dicts = [parameter_and_buffer_dicts]
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        dicts = list(parameter_and_buffer_dicts)
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    if not all(isinstance(some, dict) for some in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for some in dicts for name in some]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return _functional_call(module, dicts, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of models of one class by name, each stacked: (number of models, ...).

    They are new leaves, which require a gradient where those of the models do.
    Errors: RuntimeError for no models, several classes, or different modes or requires_grad.
    Source: torch.func.stack_module_state.
    """
    what = "stack_module_state: Expected"
    if len(models) == 0:
        raise RuntimeError(f"{what} at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{what} all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{what} all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(states: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    return {name: _stacked_leaf([state[name] for state in states], name) for name in states[0]}


def _stacked_leaf(tensors: list[Tensor], name: str) -> Tensor:
    if len({t.requires_grad for t in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    made: Tensor = stack(tensors)
    return made.detach().requires_grad_() if tensors[0].requires_grad else made
