"""Other engines on the rows of kernel_rows.py, where they are installed: JAX compiled by jit, HIPS
autograd.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from bench.step_rows import drawn

Step = Callable[[], object]


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _gelu_by_tanh(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _softmax(xp: Any, x: Any) -> Any:
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def _layer_norm(xp: Any, x: Any) -> Any:
    n = x.shape[-1]
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    deviation = xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return centred / deviation * drawn((n,), 3) + drawn((n,), 4)


# over an array module; the same functions as kernel_rows.functions
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda xp, x: x * x,
    "add": lambda xp, x: x + x,
    "gelu, tanh": _gelu_by_tanh,
    "silu": lambda xp, x: x / (1 + xp.exp(-x)),
    "softmax": _softmax,
    "layer_norm": _layer_norm,
}


def jax_step(name: str, shape: tuple[int, ...]) -> Step | None:
    """Value and gradient compiled by jax.jit; None without JAX."""
    jax = _module("jax")
    if jax is None:
        return None
    xp, function = jax.numpy, FUNCTIONS[name]
    by = xp.asarray(drawn(shape, 2))

    def both(x: Any) -> Any:
        found, pull = jax.vjp(lambda x: function(xp, x), x)
        return found, pull(by)[0]

    compiled, x = jax.jit(both), xp.asarray(drawn(shape, 1))
    return lambda: jax.block_until_ready(compiled(x))


def hips_step(name: str, shape: tuple[int, ...]) -> Step | None:
    """Value and gradient by HIPS autograd; None without it."""
    autograd = _module("autograd")
    if autograd is None:
        return None
    xp, function = importlib.import_module("autograd.numpy"), FUNCTIONS[name]
    x, by = drawn(shape, 1), drawn(shape, 2)

    def step() -> object:
        pull, found = autograd.make_vjp(lambda x: function(xp, x))(x)
        return found, pull(by)

    return step


def contenders(name: str, shape: tuple[int, ...]) -> dict[str, Callable[[], Step | None]]:
    """What makes the step of each engine on this operation."""
    if name not in FUNCTIONS:
        return {}
    return {"jax": lambda: jax_step(name, shape), "autograd": lambda: hips_step(name, shape)}
