"""Products with Jacobians and Hessians, and those matrices themselves, of functions of tensors.

Everything is by reverse mode: jvp by differentiating the vjp for its vector, which it is linear in.
Since hooks are part of the graph, functions may call hooked modules. Source of names, arguments and
errors: torch.autograd.functional.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradhook.autograd.api import grad
from gradhook.autograd.functional_checks import (
    as_tuple,
    check_outputs,
    check_scalar,
    check_vector,
    filled,
    recorded,
    shaped,
)
from gradhook.creation import ones_like, zeros_like
from gradhook.modes import enable_grad
from gradhook.overloads.joining import stack
from gradhook.tensor import Tensor

Tensors = Tensor | tuple[Tensor, ...]
_STRATEGIES = ("forward-mode", "reverse-mode")


def _started(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs to differentiate for: on the caller's graph, or on one of their own."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _finished(tensors: Any, create_graph: bool) -> Any:
    """Results without history, unless a graph was asked for."""
    if create_graph:
        return tensors
    if isinstance(tensors, Tensor):
        return tensors.detach()
    return tuple(_finished(t, create_graph) for t in tensors)


def _grad(
    outputs: tuple[Any, ...],
    inputs: tuple[Any, ...],
    vectors: tuple[Any, ...] | None = None,
    create_graph: bool = False,
) -> tuple[Any, ...]:
    """autograd.grad of the outputs that have history; None for inputs they don't depend on."""
    given = vectors if vectors is not None else (None,) * len(outputs)
    pairs = [(o, v) for o, v in zip(outputs, given, strict=True) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [o for o, _ in pairs],
        inputs,
        [v for _, v in pairs],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=True if create_graph else None,
    )


def _vector(
    v: Any, like: tuple[Tensor, ...], is_tuple: bool, who: str, what: str
) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {what} a single Tensor with a single element. "
                f"({who})"
            )
        return (ones_like(like[0].detach()),)
    vectors, _ = as_tuple(v, "v", who)
    check_vector(vectors, like, is_tuple)
    return vectors


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(func(*inputs), v^T J)`: the product of a vector with func's Jacobian at the inputs.

    inputs: a Tensor or a tuple; v: as func's result, left out for one element. The product has the
    structure of inputs. create_graph: the results can be differentiated. strict: an output that
    does not depend on an input is an error, else its derivative is zero.
    Errors: TypeError for what is no Tensor; RuntimeError for v of another size, and by strict.
    """
    with enable_grad():
        xs, xs_tuple = as_tuple(inputs, "inputs", "vjp")
        xs = _started(xs, create_graph)
        ys, ys_tuple = as_tuple(func(*xs), "outputs of the user-provided function", "vjp")
        check_outputs(ys, "outputs", strict)
        vs = _vector(v, ys, ys_tuple, "vjp", "the user-provided function returns")
        products = _grad(ys, xs, vs, create_graph)
        found = filled(products, xs, strict, create_graph, "back")
    ys, found = _finished(ys, create_graph), _finished(found, create_graph)
    return shaped(ys, ys_tuple), shaped(found, xs_tuple)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(func(*inputs), J v)`: the product of func's Jacobian at the inputs with a vector.

    v: as inputs, left out for one element; the product has the structure of func's result. Other
    parameters and errors: see `vjp`. It is the derivative of v's vjp, so two backward runs.
    """
    with enable_grad():
        xs, xs_tuple = as_tuple(inputs, "inputs", "jvp")
        vs = _vector(v, xs, xs_tuple, "jvp", "the input to the user-provided function is")
        xs = _started(xs, create_graph)
        ys, ys_tuple = as_tuple(func(*xs), "outputs of the user-provided function", "jvp")
        check_outputs(ys, "outputs", strict)
        dummies = tuple(zeros_like(y.detach()).requires_grad_() for y in ys)
        first = recorded(_grad(ys, xs, dummies, True), xs, strict, "grad_inputs")
        products = _grad(first, dummies, vs, create_graph)
        found = filled(products, ys, strict, create_graph, "back_trick")
    ys, found = _finished(ys, create_graph), _finished(found, create_graph)
    return shaped(ys, ys_tuple), shaped(found, ys_tuple)


def _first_derivative(
    func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, who: str
) -> tuple[tuple[Tensor, ...], bool, Tensor, tuple[Any, ...]]:
    """The inputs, whether they were a tuple, func's one element and its recorded gradient."""
    xs, xs_tuple = as_tuple(inputs, "inputs", who)
    xs = _started(xs, create_graph)
    ys, ys_tuple = as_tuple(func(*xs), "outputs of the user-provided function", who)
    check_outputs(ys, "outputs", strict)
    check_scalar(ys, ys_tuple, who)
    gradient = recorded(_grad(ys, xs, None, True), xs, strict, "jacobian")
    return xs, xs_tuple, ys[0], gradient


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(func(*inputs), v^T H)`: the product of a vector with the Hessian of func, which returns one
    element. v and the product: as inputs. Other parameters and errors: see `vjp`.
    """
    with enable_grad():
        given, is_tuple = as_tuple(inputs, "inputs", "vhp")
        vs = _vector(v, given, is_tuple, "vhp", "the input to the user-provided function is")
        xs, _, y, gradient = _first_derivative(func, inputs, create_graph, strict, "vhp")
        products = _grad(gradient, xs, vs, create_graph)
        found = filled(products, xs, strict, create_graph, "double_back")
    return _finished(y, create_graph), shaped(_finished(found, create_graph), is_tuple)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(func(*inputs), H v)`: the product of the Hessian of func, which returns one element, with a
    vector. v and the product: as inputs. Other parameters and errors: see `vjp`. `vhp` gives the
    same with one backward run less, where H is symmetric.
    """
    with enable_grad():
        given, is_tuple = as_tuple(inputs, "inputs", "hvp")
        vs = _vector(v, given, is_tuple, "hvp", "the input to the user-provided function is")
        xs, _, y, gradient = _first_derivative(func, inputs, create_graph, strict, "hvp")
        dummies = tuple(zeros_like(g.detach()).requires_grad_() for g in gradient)
        double = recorded(_grad(gradient, xs, dummies, True), xs, strict, "hessian")
        products = _grad(double, dummies, vs, create_graph)
        found = filled(products, xs, strict, create_graph, "double_back_trick")
    return _finished(y, create_graph), shaped(_finished(found, create_graph), is_tuple)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """func's Jacobian at the inputs: for an output and an input a Tensor of the output's shape and
    then the input's. A tuple an output when func returns a tuple, of tuples an input when inputs is
    one. It takes a backward run an output element; vectorize and strategy are accepted and change
    nothing. Other parameters and errors: see `vjp`.
    """
    _check_strategy("jacobian", vectorize, strategy, strict)
    with enable_grad():
        xs, xs_tuple = as_tuple(inputs, "inputs", "jacobian")
        xs = _started(xs, create_graph)
        ys, ys_tuple = as_tuple(func(*xs), "outputs of the user-provided function", "jacobian")
        check_outputs(ys, "outputs", strict)
        rows = tuple(
            shaped(_jacobian_of(k, y, xs, create_graph, strict), xs_tuple) for k, y in enumerate(ys)
        )
    return shaped(_finished(rows, create_graph), ys_tuple)


def _jacobian_of(
    k: int, y: Tensor, xs: tuple[Tensor, ...], create_graph: bool, strict: bool
) -> tuple[Tensor, ...]:
    """Of one output, for each input."""
    columns: list[list[Tensor]] = [[] for _ in xs]
    flat = y.reshape((-1,))
    for j in range(y.numel()):
        found: tuple[Any, ...] = (None,) * len(xs)
        if flat.requires_grad:
            found = grad(flat[j], xs, None, True, create_graph, allow_unused=True)
        for i, (column, g, x) in enumerate(zip(columns, found, xs, strict=True)):
            if strict and g is None:
                raise RuntimeError(
                    f"Output {k} of the user-provided function is independent of input {i}. This "
                    "is not allowed in strict mode."
                )
            if strict and create_graph and not g.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {i}. "
                    "This is not allowed in strict mode when create_graph=True."
                )
            column.append(zeros_like(x.detach()) if g is None else g)
    return tuple(
        (stack(column) if column else x.new_zeros((0, *x.shape))).reshape((*y.shape, *x.shape))
        for column, x in zip(columns, xs, strict=True)
    )


def _check_strategy(who: str, vectorize: bool, strategy: str, strict: bool) -> None:
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode", found '
            f"{strategy!r} ({who})"
        )
    if strict and vectorize:
        raise RuntimeError(
            f"gradhook.autograd.functional.{who}: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            f"gradhook.autograd.functional.{who}: Computing Jacobian using forward-AD or "
            "forward-over-reverse Hessian is only implemented for `vectorize=True`."
        )


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of func, which returns one element, at the inputs: a Tensor of the input's shape
    twice; for a tuple of inputs a tuple of tuples. Other parameters and errors: see `jacobian`.
    """
    _check_strategy("hessian", vectorize, outer_jacobian_strategy, strict)
    _, is_tuple = as_tuple(inputs, "inputs", "hessian")

    def gradient(*xs: Tensor) -> Any:
        ys, ys_tuple = as_tuple(func(*xs), "outputs of the user-provided function", "hessian")
        check_outputs(ys, "outputs", strict)
        check_scalar(ys, ys_tuple, "hessian")
        return shaped(recorded(_grad(ys, xs, None, True), xs, strict, "jacobian"), is_tuple)

    return jacobian(gradient, inputs, create_graph, strict)
