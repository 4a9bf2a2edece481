"""gradcheck and gradgradcheck: analytical against numerical derivatives. Source:
torch.autograd.gradcheck.

The numerical Jacobian is by central differences; for complex tensors the real and imaginary
direction of each element, in the conjugate Wirtinger convention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradhook.autograd import api
from gradhook.autograd.binding import Binding, make
from gradhook.modes import no_grad


class GradcheckError(RuntimeError):
    """The analytical gradient disagrees with the numerical one."""


def _outputs(result: Any) -> list[Any]:
    found = list(result) if isinstance(result, tuple | list) else [result]
    return [t for t in found if isinstance(t, Binding.tensor) and t._a.dtype.kind in "fc"]


def _columns(a: np.ndarray[Any, Any]) -> list[complex]:
    return [1.0, 1j] if a.dtype.kind == "c" else [1.0]


def _flat(values: list[Any]) -> np.ndarray[Any, Any]:
    """Real and imaginary parts of all outputs, as one float64 vector."""
    parts = []
    for v in values:
        a = np.asarray(v._host(), dtype=np.complex128).ravel()
        parts += [a.real, a.imag]
    return np.concatenate(parts) if parts else np.zeros(0)


def numerical_jacobian(
    fn: Callable[..., Any], inputs: Sequence[Any], k: int, eps: float
) -> np.ndarray[Any, Any]:
    """d(outputs) / d(inputs[k]) by central differences: (real dimensions of the input, real ones
    of the outputs).
    """
    x = inputs[k]
    host = np.array(x._host())
    rows = []
    for index in np.ndindex(host.shape):
        for step in _columns(host):
            ends = []
            for sign in (1, -1):
                moved = host.copy()
                moved[index] += sign * eps * step
                t = make(type_like(x, moved))
                with no_grad():
                    ends.append(
                        _flat(_outputs(fn(*[t if j == k else v for j, v in enumerate(inputs)])))
                    )
            rows.append((ends[0] - ends[1]) / (2 * eps))
    return np.array(rows)


def type_like(x: Any, host: np.ndarray[Any, Any]) -> Any:
    """host values on x's device."""
    from gradhook import backend

    return backend.to_device(host, x.device)


def analytical_jacobian(
    fn: Callable[..., Any], inputs: Sequence[Any], k: int
) -> np.ndarray[Any, Any]:
    """The same from backward runs, one an output component."""
    outputs = _outputs(fn(*inputs))
    x = inputs[k]
    columns: list[Any] = []
    for o in outputs:
        parts: list[list[Any]] = []
        for step in (1.0, 1j):
            part = []
            for index in np.ndindex(tuple(o._a.shape)):
                if (step == 1j and o._a.dtype.kind != "c") or o._node is None:
                    part.append(np.zeros(x._a.size * len(_columns(x._a))))
                    continue
                seed = np.zeros(o._a.shape, o._a.dtype)
                seed[index] = step
                (g,) = api.grad(
                    o, x, make(type_like(x, seed)), retain_graph=True, allow_unused=True
                )
                values = np.zeros(x._a.shape, x._a.dtype) if g is None else np.asarray(g._host())
                flat = values.ravel()
                part.append(
                    np.stack([flat.real, flat.imag], 1).ravel() if flat.dtype.kind == "c" else flat
                )
            parts.append(part)
        columns += parts[0] + parts[1]
    width = x._a.size * len(_columns(x._a))
    return np.array(columns).reshape(len(columns), width).T


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Whether fn's gradients for the inputs that require grad agree with finite differences.

    inputs: a tensor or a tuple of them, float64 or complex128. nondet_tol: how much two runs may
    differ.
    Errors: GradcheckError names input and worst entry; ValueError when no input requires grad.
    """
    tensors = (inputs,) if isinstance(inputs, Binding.tensor) else tuple(inputs)
    checked = [
        k for k, t in enumerate(tensors) if isinstance(t, Binding.tensor) and t.requires_grad
    ]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    for k in checked:
        numerical = numerical_jacobian(fn, tensors, k, eps)
        analytical = analytical_jacobian(fn, tensors, k)
        again = analytical_jacobian(fn, tensors, k) if nondet_tol == 0.0 else analytical
        problem = _difference(analytical, numerical, atol, rtol, k)
        if problem is None and not np.array_equal(again, analytical, equal_nan=True):
            problem = (
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                f"multiple times gives different values (input {k})"
            )
        if problem is not None:
            if raise_exception:
                raise GradcheckError(problem)
            return False
    return True


def _difference(
    a: np.ndarray[Any, Any], n: np.ndarray[Any, Any], atol: float, rtol: float, k: int
) -> str | None:
    if a.shape != n.shape:
        a, n = a.reshape(n.shape) if a.size == n.size else a, n
    close = np.isclose(a, n, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    worst = np.unravel_index(int(np.argmax(np.where(close, 0, np.abs(a - n)))), n.shape)
    return (
        f"Jacobian mismatch for input {k}: {int((~close).sum())} of {close.size} entries, worst "
        f"at (input, output) "
        f"{tuple(int(w) for w in worst)}: numerical {n[worst]:.9g}, analytical {a[worst]:.9g}"
    )


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """gradcheck of the gradient: second derivatives for the inputs and for grad_outputs (random
    when None).
    """
    tensors = (inputs,) if isinstance(inputs, Binding.tensor) else tuple(inputs)
    checked = [
        k for k, t in enumerate(tensors) if isinstance(t, Binding.tensor) and t.requires_grad
    ]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = [_random_like(o, rng) for o in _outputs(fn(*tensors)) if o._node is not None]
    given = (grad_outputs,) if isinstance(grad_outputs, Binding.tensor) else tuple(grad_outputs)

    def gradient(*args: Any) -> tuple[Any, ...]:
        xs, gs = list(args[: len(tensors)]), args[len(tensors) :]
        for k in checked:
            if not xs[k].requires_grad:  # a moved value of the numerical side
                xs[k] = xs[k].detach().requires_grad_()
        from gradhook.modes import enable_grad

        with enable_grad():
            outputs = [o for o in _outputs(fn(*xs)) if o._node is not None]
            wanted = [xs[k] for k in checked]
            found = api.grad(outputs, wanted, list(gs), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient, (*tensors, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


def _random_like(o: Any, rng: np.random.Generator) -> Any:
    values = rng.standard_normal(o._a.shape)
    if o._a.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(o._a.shape)
    return make(type_like(o, np.asarray(values, o._a.dtype))).requires_grad_()
