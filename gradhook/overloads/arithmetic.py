"""add with alpha, div with rounding_mode, where, masked_fill, softmax, comparisons that return
Python values.
"""

from __future__ import annotations

from typing import Any

from gradhook import creation, dtypes
from gradhook.autograd.record import operator_of
from gradhook.overloads.checked import refuse
from gradhook.overloads.out import written
from gradhook.overloads.recorded import multi, ops
from gradhook.tensor import Tensor

RENAMED = {"where": "where_method", "__rdiv__": "rdiv", "__pow__": "power_operator"}
FUNCTIONS = (
    *"""
    pow add sub subtract rsub div divide true_divide float_power where masked_fill clamp clip
    softmax log_softmax equal allclose is_nonzero is_floating_point is_complex numel
    result_type can_cast promote_types ldexp polygamma mvlgamma
""".split(),
)
METHODS = (
    *"""
    pow __pow__ add sub subtract div divide true_divide float_power where masked_fill clamp clip
    softmax log_softmax equal allclose is_nonzero ldexp polygamma mvlgamma __rdiv__
""".split(),
)
PROPERTIES: tuple[str, ...] = ()


def add(input: Tensor, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """input + alpha * other.

    Shapes broadcast. Result: promoted dtype. Errors: RuntimeError for a floating alpha with integer
    tensors.
    """
    if out is not None:
        result: Tensor = written(add, "add", out, input, other, alpha=alpha)
        return result
    return ops.add(input, scaled(input, other, alpha))


def sub(input: Tensor, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """input - alpha * other.

    Shapes broadcast. Result: promoted dtype. Errors: RuntimeError for bool tensors.
    """
    if out is not None:
        result: Tensor = written(sub, "sub", out, input, other, alpha=alpha)
        return result
    return ops.subtract(input, scaled(input, other, alpha))


subtract = sub


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input. Shapes broadcast. Result: promoted dtype. Errors: TypeError where
    input is a number.
    """
    refuse("rsub", "input", 1, input)
    return ops.subtract(other, scaled(input, input, alpha))


def scaled(input: Any, other: Any, alpha: Any) -> Any:
    """alpha * other. Errors: RuntimeError where the kind of alpha is above that of the tensors."""
    if type(alpha) is int and alpha == 1:
        return other
    kinds = [x._a.dtype.kind for x in (input, other) if isinstance(x, Tensor)]
    if isinstance(alpha, bool) and any(k != "b" for k in kinds):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and all(k in "biu" for k in kinds) and not isinstance(other, float):
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, complex) and "c" not in kinds:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if not isinstance(other, Tensor):
        return other * alpha
    return ops.multiply(other, alpha)


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Tensor:
    """input / other; rounded toward zero ("trunc") or down ("floor") in the promoted dtype.

    Shapes broadcast; whole quotients only where rounded.

    Errors: RuntimeError for another rounding_mode.
    """
    if out is not None:
        result: Tensor = written(div, "div", out, input, other, rounding_mode=rounding_mode)
        return result
    if rounding_mode is None:
        return ops.divide(input, other)
    if rounding_mode == "trunc":
        return ops.trunc_divide(input, other)
    if rounding_mode == "floor":
        return ops.floor_divide(input, other)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'"
    )


divide = div


def true_divide(input: Any, other: Any) -> Tensor:
    """input / other. Shapes broadcast. Result: floating or complex."""
    return ops.divide(input, other)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input to the power exponent in float64 (complex128). Shapes broadcast. Errors: TypeError for
    two numbers.
    """
    found = [x for x in (input, exponent) if isinstance(x, Tensor)]
    if not found:
        refuse("float_power", "input", 1, input)
    complexes = any(isinstance(x, complex) for x in (input, exponent)) or any(
        x.is_complex() for x in found
    )
    target = dtypes.complex128 if complexes else dtypes.float64
    return ops.power(
        *(ops.cast(x, dtype=target) if isinstance(x, Tensor) else x for x in (input, exponent))
    )


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where condition, other elsewhere; with the condition alone, the indices where it holds,
    one a dimension.

    condition: bool; shapes broadcast; numbers promote. Result: promoted dtype. Errors:
    RuntimeError.
    """
    if input is None and other is None:
        return multi.unbind(ops.nonzero(condition), axis=1)
    if isinstance(condition, Tensor) and condition._a.dtype.kind != "b":
        if condition._a.dtype != "u1":
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{condition.dtype!r}"
            )
        condition = ops.cast(condition, dtype=dtypes.bool_)
    if isinstance(input, Tensor) and isinstance(other, Tensor) and input._a.dtype is other._a.dtype:
        return ops.where(condition, input, other)
    target = result_type(input, other)
    x, y = (_typed(v, target) for v in (input, other))
    return ops.where(condition, x, y)


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where condition, other elsewhere. Result: promoted dtype."""
    chosen: Tensor = where(condition, self, other)
    return chosen


def rdiv(self: Tensor, other: Any) -> Tensor:
    """other / self. Result: floating or complex."""
    return ops.divide(other, self)


def _typed(value: Any, target: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value if value._a.dtype == target.np else ops.cast(value, dtype=target)
    return creation.tensor(value, dtype=target)


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """value where mask, input elsewhere.

    mask: bool, broadcasts; value: a number or a 0-d tensor. Result: as input.
    Errors: RuntimeError for a value with dimensions.
    """
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        if value.is_complex() and not input.is_complex():
            raise RuntimeError(
                f"value cannot be converted to type {input.dtype} without overflow: found "
                f"{value.dtype}, expected a real value"
            )
        return ops.masked_fill_tensor(input, mask, value)
    return ops.masked_fill(input, mask, value=value)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """input raised to min and lowered to max: numbers or tensors that broadcast, or None.

    Result: promoted dtype. Errors: RuntimeError when both are None.
    """
    row, limits, numbers = clamping(input, min, max)
    found: Tensor = getattr(ops, row)(input, *limits, **numbers)
    return found


clip = clamp


def clamping(input: Tensor, low: Any, high: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The table op, its tensor inputs and its attributes of a clamp.

    Errors: RuntimeError when both limits are None.
    """
    if low is None and high is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if type(low) in NUMBERS and type(high) in NUMBERS and input._a.dtype.kind == "f":
        return "clamp", (), {"low": low, "high": high}
    if high is None:
        return "clip_low", (low,), {}
    if low is None:
        return "clip_high", (high,), {}
    return "clip", (low, high), {}


NUMBERS = (int, float, type(None))


def pow(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """input to the power exponent: tensors that broadcast, or numbers. Result: promoted dtype.

    Errors: RuntimeError for integers to one negative number; TypeError for what is no number.
    """
    if out is not None:
        result: Tensor = written(pow, "pow", out, input, exponent)
        return result
    numbers = not isinstance(input, Tensor) and not isinstance(exponent, Tensor)
    found: Any = NotImplemented if numbers else power_operator(input, exponent)
    if found is NotImplemented:
        kinds = f"{type(input).__name__}, {type(exponent).__name__}"
        raise TypeError(f"pow(): arguments must be Tensors or numbers, found {kinds}")
    made: Tensor = found
    return made


def power_operator(self: Any, other: Any) -> Tensor:
    """self ** other."""
    if type(other) in (int, float) and isinstance(self, Tensor):
        refuse_negative(self, other)
        if self._a.dtype.kind in "fc":
            return ops.pow(self, exponent=other)
    made: Tensor = operator_of("power")(self, other)
    return made


def refuse_negative(self: Tensor, exponent: Any) -> None:
    """Raise RuntimeError for integers to a negative integer number."""
    if type(exponent) is int and exponent < 0 and self._a.dtype.kind in "biu":
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(input) over its sum along dim (of the dtype given). Result: shape of input.

    Errors: RuntimeError for integers. Without dim, PyTorch's implicit choice.
    """
    return ops.softmax(
        _floating("softmax", input, dtype), axis=implicit_dim(input) if dim is None else dim
    )


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of softmax along dim. Result: shape of input. Errors: RuntimeError for integers."""
    return ops.log_softmax(
        _floating("log_softmax", input, dtype), axis=implicit_dim(input) if dim is None else dim
    )


def implicit_dim(input: Tensor) -> int:
    """PyTorch's softmax dimension when none is given: 0 for 0, 1 and 3 dimensions, else 1."""
    return 0 if input.ndim in (0, 1, 3) else 1


def _floating(name: str, input: Tensor, dtype: Any) -> Tensor:
    if dtype is not None:
        return ops.cast(input, dtype=dtype) if input.dtype != dtype else input
    if input._a.dtype.kind not in "fc":
        raise RuntimeError(
            f"\"{name}_lastdim_kernel_impl\" not implemented for '{input.dtype.title}'"
        )
    return input


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal (False where one is NaN). Reads the values.

    Shapes broadcast; any dtype.
    """
    if input.shape != other.shape:
        return False
    return bool(ops.all(ops.equal(input, other)).item())


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether |input - other| <= atol + rtol * |other| everywhere. Reads the values.

    Shapes broadcast; any dtype.
    """
    return bool(
        ops.all(ops.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)).item()
    )


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is nonzero. Errors: RuntimeError for more elements.

    One element of any shape and dtype; a Python bool.
    """
    return bool(input)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is floating point. Any shape; a Python bool."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex. Any shape; a Python bool."""
    return input.is_complex()


def numel(input: Tensor) -> int:
    """The number of elements. Any dtype; a Python int."""
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype that arithmetic between two tensors or numbers gives."""
    tensors = [x for x in (tensor1, tensor2) if isinstance(x, Tensor)]
    return dtypes.of(
        dtypes.result_type(
            [x._a.dtype for x in tensors if x.ndim],
            [x._a.dtype for x in tensors if not x.ndim],
            [x for x in (tensor1, tensor2) if not isinstance(x, Tensor)],
        )
    )


def promote_types(type1: Any, type2: Any) -> dtypes.dtype:
    """The dtype that holds both."""
    return dtypes.of(dtypes.promote_types(dtypes.of(type1).np, dtypes.of(type2).np))


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a result of dtype `from_` may be written into a tensor of dtype `to`: its kind is not
    above.
    """
    rank = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    return rank[dtypes.of(from_).np.kind] <= rank[dtypes.of(to).np.kind]


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other. Shapes broadcast. Result: floating. Errors: TypeError for numbers."""
    refuse("ldexp", "input", 1, input)
    refuse("ldexp", "other", 2, other)
    return ops.multiply(input, ops.power(2.0, other))


def polygamma(n: Any, input: Any) -> Tensor:
    """n-th derivative of digamma.

    polygamma(n, tensor); as a method tensor.polygamma(n). Result: floating.
    Errors: RuntimeError for negative n.
    """
    if isinstance(n, Tensor):
        n, input = input, n
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return ops.polygamma(input, n=n)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Multivariate log-gamma of dimension p.

    input: any shape, above (p - 1) / 2. Result: floating.
    """
    total = ops.lgamma(input)
    for k in range(1, p):
        total = ops.add(total, ops.lgamma(ops.subtract(input, k / 2)))
    return ops.add(total, p * (p - 1) / 4 * 1.1447298858494002)
