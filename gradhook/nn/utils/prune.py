"""Pruning: entries or channels of a parameter set to 0, by a mask that each forward applies.

Source: torch.nn.utils.prune.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from gradhook.creation import ones_like
from gradhook.nn.module import Module
from gradhook.nn.utils.convert_parameters import parameters_to_vector
from gradhook.nn.utils.hooked import hooks_of
from gradhook.nn.utils.pruning import METHOD, BasePruningMethod, PruningContainer
from gradhook.nn.utils.pruning_methods import (
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    RandomStructured,
    RandomUnstructured,
)
from gradhook.nn.utils.pruning_methods import (  # PyTorch's private names
    _compute_norm as _compute_norm,
)
from gradhook.nn.utils.pruning_methods import (
    _compute_nparams_toprune as _compute_nparams_toprune,
)
from gradhook.nn.utils.pruning_methods import (
    _validate_pruning_amount as _validate_pruning_amount,
)
from gradhook.nn.utils.pruning_methods import (
    _validate_pruning_amount_init as _validate_pruning_amount_init,
)
from gradhook.nn.utils.pruning_methods import (
    _validate_pruning_dim as _validate_pruning_dim,
)
from gradhook.nn.utils.pruning_methods import (
    _validate_structured_pruning as _validate_structured_pruning,
)
from gradhook.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

M = TypeVar("M", bound=Module)


def identity(module: M, name: str) -> M:
    """Give a parameter the form of a pruned one with nothing pruned. Returns module.

    Source: torch.nn.utils.prune.identity.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune entries of a parameter at random.

    `name` becomes `name_orig` * `name_mask`, the first a parameter, the second a buffer. amount:
    how many entries, or which share of those left as a float of [0, 1]. Returns module.
    Errors: TypeError, ValueError. Source: torch.nn.utils.prune.random_unstructured.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: float, importance_scores: Tensor | None = None
) -> M:
    """Prune the entries of a parameter of the smallest absolute value.

    amount: as in random_unstructured; importance_scores: what to judge the entries by, shape of the
    parameter (None: itself). Returns module. Errors: TypeError, ValueError, AssertionError.
    Source: torch.nn.utils.prune.l1_unstructured.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune channels of a parameter along dim at random; amount: how many, or which share of those
    left as a float of [0, 1]. Returns module.

    Errors: TypeError, ValueError, IndexError. Source: torch.nn.utils.prune.random_structured.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> M:
    """Prune the channels of a parameter along dim of the smallest n-norm; n: as p of gradhook.norm.

    amount: as in random_structured; importance_scores: as in l1_unstructured. Returns module.
    Errors: TypeError, ValueError, IndexError, AssertionError.
    Source: torch.nn.utils.prune.ln_structured.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune entries of several parameters together, as if they were one vector.

    parameters: (module, name) pairs; pruning_method: an unstructured one, which kwargs go to;
    importance_scores: what to judge the entries by, for each pair (else the parameter itself).
    Errors: TypeError for another method or no iterable. Source:
    torch.nn.utils.prune.global_unstructured.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    tensors = [getattr(module, name) for module, name in pairs]
    scores = [given.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask") if hasattr(module, name + "_mask") else ones_like(t)
        for (module, name), t in zip(pairs, tensors, strict=True)
    ]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    whole = PruningContainer(method)
    mask = whole.compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    start = 0
    for (module, name), tensor in zip(pairs, tensors, strict=True):
        part = mask[start : start + tensor.numel()]
        custom_from_mask(module, name, mask=part.view(*tensor.shape))
        start += tensor.numel()


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune a parameter by a given mask of its shape, 0 for what goes. Returns module.

    Source: torch.nn.utils.prune.custom_from_mask.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: M, name: str) -> M:
    """Make a pruned parameter a plain one again, with 0 where it was pruned. Returns module.

    Errors: ValueError for one that is not pruned. Source: torch.nn.utils.prune.remove.
    """
    for key, hook in hooks_of(module, "_forward_pre_hooks", METHOD):
        if hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned.

    Source: torch.nn.utils.prune.is_pruned.
    """
    return any(
        True for part in module.modules() for _ in hooks_of(part, "_forward_pre_hooks", METHOD)
    )
