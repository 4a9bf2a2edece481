"""Element kernels: gelu, relu, their gradients, and dropout's mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook import backend
from gradhook.kernels.launch import ElementKernel
from gradhook.kernels.registry import kernel_for

GELU = {
    "none": ElementKernel("gelu", "elements", 1, "gelu<F>(x0)"),
    "tanh": ElementKernel("gelu_tanh", "elements", 1, "gelu_tanh<F>(x0)"),
}
GELU_VJP = {
    "none": ElementKernel("gelu_vjp", "elements", 2, "gelu_vjp<F>(x0, x1)"),
    "tanh": ElementKernel("gelu_tanh_vjp", "elements", 2, "gelu_tanh_vjp<F>(x0, x1)"),
}
RELU = ElementKernel("relu", "elements", 1, "relu<F>(x0)")
RELU_VJP = ElementKernel("relu_vjp", "elements", 2, "relu_vjp<F>(x0, x1)")
DROPOUT = ElementKernel(
    "dropout_factor",
    "elements",
    0,
    "dropout_factor<F>(seed, offset, i, p)",
    (
        ("unsigned long long", np.uint64, "seed"),
        ("unsigned long long", np.uint64, "offset"),
        ("double", np.float64, "p"),
    ),
)
ELEMENT_KERNELS = (*GELU.values(), *GELU_VJP.values(), RELU, RELU_VJP, DROPOUT)


@kernel_for("gelu", native=True)
def gelu(x: Any, *, approximate: str = "none") -> Any:
    """Kernel of the table's gelu."""
    kernel = GELU.get(approximate)
    return NotImplemented if kernel is None else kernel.of(x)


@kernel_for("gelu_vjp", native=True)
def gelu_vjp(g: Any, x: Any, *, approximate: str) -> Any:
    """Kernel of the gradient of gelu."""
    return GELU_VJP[approximate].of(g, x)


kernel_for("relu")(RELU.of)
kernel_for("relu_vjp", native=True)(RELU_VJP.of)


def dropout_factor(shape: tuple[int, ...], dtype: Any, p: float, seed: int, offset: int) -> Any:
    """0 with probability p, else 1 / (1 - p), on the current device.

    Element i depends on (seed, offset, i) only: Philox-4x32-10 of the counter (i // 4, offset) and
    the key `seed`, word i % 4, its upper 24 bits.
    """
    out = backend.cupy().ndarray(shape, dtype)
    return DROPOUT((), out, seed % 2**64, offset % 2**64, p)
