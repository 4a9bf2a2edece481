"""What the constructors of optimizers refuse, in PyTorch's words."""

from __future__ import annotations

from typing import Any

from gradhook import backend
from gradhook.tensor import Tensor


def check_one_element(lr: Any) -> None:
    """Errors: ValueError for a Tensor that is not one number."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def is_negative(value: Any) -> bool:
    """Whether a number, or a 1-element Tensor in host memory, is below zero or NaN; one on a device
    is not read.
    """
    if isinstance(value, Tensor):
        return not backend.is_cupy(value._a) and not value._a.item() >= 0.0
    return not value >= 0.0


def check_lr(lr: Any, foreach: Any = None, capturable: bool = False) -> None:
    """Errors: ValueError for a negative learning rate, or a Tensor that is not one number."""
    if isinstance(lr, Tensor) and foreach and not capturable:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    check_one_element(lr)
    if is_negative(lr):
        raise ValueError(f"Invalid learning rate: {lr}")


def check_values(**values: Any) -> None:
    """Errors: ValueError for a negative value; `epsilon` is what the text calls eps."""
    for name, value in values.items():
        if is_negative(value):
            raise ValueError(f"Invalid {name} value: {value}")


def check_amounts(**amounts: Any) -> None:
    """check_values with the text of Muon and Adafactor; `_` stands for a space."""
    for name, amount in amounts.items():
        if is_negative(amount):
            raise ValueError(f"{name.replace('_', ' ')} should be >= 0 but is: {amount}")


def check_betas(betas: Any, foreach: bool | None = None, capturable: bool = False) -> None:
    """Errors: ValueError unless both are in [0, 1), and both floats or both 1-element Tensors."""
    floats = [isinstance(b, (int, float)) for b in betas]
    tensors = [isinstance(b, Tensor) for b in betas]
    if not (all(floats) or all(tensors)):
        raise ValueError("betas must be either both floats or both Tensors")
    for k, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if not capturable and foreach:
                raise ValueError(
                    f"betas[{k}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{k}] must be 1-element")
        elif not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {beta}")
