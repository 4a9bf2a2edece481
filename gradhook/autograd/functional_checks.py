"""What autograd.functional checks of inputs, vectors and derivatives, with PyTorch's errors."""

from __future__ import annotations

from typing import Any

from gradhook.creation import zeros_like
from gradhook.tensor import Tensor


def as_tuple(x: Any, what: str, who: str) -> tuple[tuple[Tensor, ...], bool]:
    """(tensors, whether a tuple was given). Errors: TypeError for what is no Tensor."""
    if isinstance(x, Tensor):
        return (x,), False
    if not isinstance(x, tuple):
        raise TypeError(
            f"The {what} given to {who} must be either a Tensor or a tuple of Tensors but the "
            f"given {what} has type {type(x)}."
        )
    for k, t in enumerate(x):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"The {what} given to {who} must be either a Tensor or a tuple of Tensors but the "
                f"value at index {k} has type {type(t)}."
            )
    return x, True


def shaped(tensors: tuple[Any, ...], is_tuple: bool) -> Any:
    """The tuple, or the one tensor in it."""
    return tensors if is_tuple else tensors[0]


def check_vector(v: tuple[Tensor, ...], like: tuple[Tensor, ...], is_tuple: bool) -> None:
    """Errors: RuntimeError unless v has a tensor for each of `like`, of the same size."""
    if len(v) != len(like):
        if is_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (found, expected) in enumerate(zip(v, like, strict=True)):
        if found.shape != expected.shape:
            entry = f"Entry {k} in " if is_tuple else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {expected.size()} but got {found.size()}."
            )


def check_scalar(ys: tuple[Tensor, ...], is_tuple: bool, who: str) -> None:
    """Errors: RuntimeError unless a function returned one Tensor of one element."""
    if is_tuple:
        raise RuntimeError(f"The function given to {who} should return a single Tensor")
    if ys[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {who} should contain a single element"
        )


_INDEPENDENT = {
    "hessian": (
        "The hessian of the user-provided function with respect to input {k} is independent of "
        "the input. This is not allowed in strict mode. You should ensure that your function is "
        "thrice differentiable and that the hessian depends on the inputs."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with "
        "respect to input {k} is independent of the input. This is not allowed in strict mode. "
        "You should ensure that your function is twice differentiable and that the jacobian "
        "depends on the inputs (this would be violated by a linear function for example)."
    ),
    "grad_inputs": (
        "The gradient with respect to input {k} is independent of the inputs of the user-provided "
        "function. This is not allowed in strict mode."
    ),
    "outputs": (
        "Output {k} of the user-provided function does not require gradients. The outputs must be "
        "computed in a differentiable manner from the input when running in strict mode."
    ),
}


def check_outputs(tensors: tuple[Any, ...], kind: str, strict: bool) -> None:
    """Errors: RuntimeError in strict mode for what is not recorded. kind: a key of
    _INDEPENDENT."""
    for k, t in enumerate(tensors if strict else ()):
        if t is None:
            raise RuntimeError(_MISSING["back"].format(k=k))
        if not t.requires_grad:
            raise RuntimeError(_INDEPENDENT[kind].format(k=k))


def recorded(
    grads: tuple[Any, ...], like: tuple[Tensor, ...], strict: bool, kind: str
) -> tuple[Tensor, ...]:
    """Gradients that are differentiated further, with zeros for the missing ones. Errors: as
    `check_outputs`."""
    check_outputs(grads, kind, strict)
    return filled(grads, like, False, False, "back")


_MISSING = {
    "back": (
        "The output of the user-provided function is independent of input {k}. This is not "
        "allowed in strict mode."
    ),
    "back_trick": (
        "The gradient with respect to the input is independent of entry {k} in the grad_outputs "
        "when using the double backward trick to compute forward mode gradients. This is not "
        "allowed in strict mode."
    ),
    "double_back": (
        "The jacobian of the user-provided function is independent of input {k}. This is not "
        "allowed in strict mode."
    ),
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {k} in the "
        "grad_jacobian. This is not allowed in strict mode as it prevents from using the double "
        "backward trick to replace forward mode AD."
    ),
}


def filled(
    grads: tuple[Any, ...], like: tuple[Tensor, ...], strict: bool, create_graph: bool, stage: str
) -> tuple[Tensor, ...]:
    """Gradients with zeros for the missing ones.

    Errors: RuntimeError in strict mode for a missing one and, with create_graph, for one that is
    not recorded. stage: a key of _MISSING.
    """
    found = []
    for k, (g, x) in enumerate(zip(grads, like, strict=True)):
        if strict and g is None:
            raise RuntimeError(_MISSING[stage].format(k=k))
        if strict and create_graph and not g.requires_grad:
            what = "second derivative" if "double" in stage else "backward"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {k}. This is "
                "not allowed in strict mode."
            )
        found.append(zeros_like(x.detach()) if g is None else g)
    return tuple(found)
