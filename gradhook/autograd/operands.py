"""From what a user passes to an op to Tensors of one dtype: scalars, arrays, promotion; and errors
in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd.binding import Binding, make, make_at
from gradhook.ops.table import Op

_constants: dict[Any, Any] = {}
_MAX_CONSTANTS = 4096


def constant(value: Any, dtype: np.dtype[Any], array_type: type) -> Any:
    """A 0-d Tensor of a Python number, cached: a Python scalar would cost NumPy a second
    multiply.
    """
    key: Any = (type(value), value, dtype, array_type)
    if array_type is not np.ndarray:
        key = (*key, backend.stream_key())
    found = _constants.get(key)
    if found is None:
        found = make(backend.scalar(value, dtype, array_type))
        found._nr = -1  # saved-tensor hooks pass numbers by
        signed_zero = isinstance(value, float) and value == 0 and math.copysign(1, value) < 0
        if (
            value == value
            and not signed_zero
            and not isinstance(value, complex)
            and len(_constants) < _MAX_CONSTANTS
        ):
            _constants[key] = found
    return found


def with_number(x: Any, y: Any) -> tuple[Any, Any] | None:
    """A floating or complex Tensor beside a Python float or int, the common case of `operands`:
    the number becomes a 0-d Tensor of the other's dtype. None for anything else.
    """
    swapped = type(x) is float or type(x) is int
    if swapped:
        x, y = y, x
    elif type(y) is not float and type(y) is not int:
        return None
    if not isinstance(x, Binding.tensor) or x._a.dtype.kind not in "fc":
        return None
    number = constant(y, x._a.dtype, type(x._a))
    return (number, x) if swapped else (x, number)


def operator_operands(row: Op, x: Any, y: Any) -> Any:
    """`operands` of an operator, a tuple. For what it does not take: what the op gives with such a
    value (FOREIGN), else NotImplemented, so that Python asks the other side.
    """
    for value in (x, y):
        if not isinstance(value, _OPERATOR_TYPES | Binding.tensor) and not _is_array(value):
            foreign = FOREIGN.get(row.name)
            return NotImplemented if foreign is None else foreign(x, y)
    return operands(row, x, y)


# op name -> what its operator gives for a value that is no tensor: f(x, y), or NotImplemented
FOREIGN: dict[str, Callable[[Any, Any], Any]] = {}


def refusal(row: Op) -> str:
    """The text that tests whether `operator_operands` found something else than operands."""
    return "type(found) is not tuple" if row.name in FOREIGN else "found is NotImplemented"


_OPERATOR_TYPES = bool | int | float | complex | np.generic | np.ndarray


def _is_array(x: Any) -> bool:
    return type(x) in backend.array_types()


def tensor_of(x: Any, name: str) -> Any:
    """A Tensor as it is, an array of NumPy or CuPy as one over the same memory. name: who takes it.

    Errors: TypeError for anything else.
    """
    if isinstance(x, Binding.tensor):
        return x
    if not isinstance(x, backend.array_types()):
        raise TypeError(
            f"{name}: found {type(x).__name__}, expected a Tensor; make one with "
            "gradhook.tensor(...)"
        )
    return make(backend.entered(x))


def as_operand(row: Op, x: Any, like: type | None) -> Any:
    """A Tensor of an array of the tensors' own kind; Python numbers stay as they are.

    Errors: TypeError names what was found, and for an array of another library the way out.
    """
    if isinstance(x, Binding.tensor | bool | int | float | complex):
        return x
    if isinstance(x, np.generic):
        return x.item() if like is None else make(backend.scalar(x, x.dtype, like))
    if _is_array(x) or isinstance(x, np.ndarray):
        if like is not None and backend.is_cupy(x) != issubclass(like, backend.cupy_types()):
            where = "a CUDA tensor" if isinstance(x, np.ndarray) else "a CPU tensor"
            found = "a NumPy array" if isinstance(x, np.ndarray) else "a CuPy array"
            raise TypeError(
                f"{row.name}: found {found} beside {where}, expected all on one device; "
                "move it with gradhook.as_tensor(array).to(tensor.device), or the tensor with "
                ".cpu()"
            )
        dtypes.of(x.dtype)
        return make(np.asarray(x) if isinstance(x, np.ndarray) else backend.entered(x))
    raise TypeError(
        f"{row.name}(): argument must be Tensor or a number, not {type(x).__name__}; "
        "make one with gradhook.tensor(...) or gradhook.as_tensor(...)"
    )


def operands(row: Op, *inputs: Any) -> tuple[Any, ...]:
    """Every input as a Tensor, promoted as the op asks. An absent optional input stays None.

    Errors: TypeError for what is no tensor; RuntimeError where dtypes must agree.
    """
    tensor = Binding.tensor
    like = next((type(x._a) for x in inputs if isinstance(x, tensor)), None)
    absent = [n in row.optional for n in row.inputs] if row.optional else [False] * len(inputs)
    found = [
        x if x is None and may else as_operand(row, x, like)
        for x, may in zip(inputs, absent, strict=True)
    ]
    tensors = [x for x in found if isinstance(x, tensor)]
    like = like or next((type(t._a) for t in tensors), np.ndarray)
    if row.promote in ("arith", "float"):
        dims = [t._a.dtype for t in tensors if t._a.ndim]
        zeros = [t._a.dtype for t in tensors if not t._a.ndim]
        target = dtypes.result_type(dims, zeros, [x for x in found if isinstance(x, Number)])
        if row.promote == "float" and target.kind not in "fc":
            target = dtypes.get_default_dtype().np
        return tuple([x if x is None else _promoted(x, target, like) for x in found])
    if row.promote == "same" and len({t._a.dtype for t in tensors}) > 1:
        kinds = " != ".join(dtypes.of(t._a.dtype).name for t in tensors)
        raise RuntimeError(
            f"{row.name}: expected all inputs to have the same dtype, but got: {kinds}; cast with "
            f".to()"
        )
    return tuple(
        [constant(x, dtypes.of_scalar(x), like) if isinstance(x, Number) else x for x in found]
    )


def refuse_dtype(row: Op, dtype: Any) -> None:
    """Raise that an op does not take a dtype. Source: PyTorch's text of the error."""
    public = row.torch.partition("(")[0].rpartition(".")[2] if row.torch else row.name
    raise NotImplementedError(refused_dtype(public, row.takes or "", dtype))


def refused_dtype(public: str, takes: str, dtype: Any) -> str:
    """The text for a dtype that a function does not take. takes: the kinds that it does."""
    if "c" in takes:
        what = "floating and complex numbers" if takes == "fc" else "numbers"
    else:
        what = "real numbers of a floating dtype" if takes == "f" else "real numbers"
    return (
        f'"{public}" not implemented for {dtypes.of(dtype).title!r}; it takes {what}, found dtype '
        f"{dtypes.of(dtype).name}: convert with .to(dtype)"
    )


def _promoted(x: Any, target: np.dtype[Any], like: type) -> Any:
    if isinstance(x, Number):
        return constant(x, target, like)
    if x._a.dtype == target:
        return x if x._a.dtype is target else retyped(x, x._a.view(target))
    return retyped(x, x._a.astype(target))


def retyped(x: Any, array: Any) -> Any:
    """The same place in the graph with its array in another dtype; `conform` casts the gradient
    back.
    """
    return make_at(array, x._node, x._nr)


def array_of(row: Op, name: str, x: Any) -> Any:
    """The array of an optional input."""
    if not isinstance(x, Binding.tensor):
        raise TypeError(
            f"{row.name}(): argument {name!r} must be Tensor or None, not {type(x).__name__}"
        )
    return x._a


def as_array(like: Any, value: Any) -> Any:
    """NumPy's 0-d arithmetic returns scalars, CuPy's returns arrays: here both become arrays."""
    if _is_array(value):  # also one that `to` moved to another device
        return value
    return np.asarray(value) if isinstance(like, np.ndarray) else backend.cupy().asarray(value)


def elsewhere(inputs: Any) -> bool:
    """Whether an input is on a CUDA device that is not the current one."""
    current = None
    for t in inputs:
        a = getattr(t, "_a", None)
        if a is not None and type(a) is not np.ndarray:
            current = backend.current_index() if current is None else current
            if a.device.id != current:
                return True
    return False


def on_device(row: Op, recorder: Any, inputs: Any, attributes: dict[str, Any]) -> Any:
    """The op on the device of its inputs, whichever is the current one.

    Errors: RuntimeError when they are on several.
    """
    tensors = [x for x in inputs if isinstance(x, Binding.tensor)]
    devices = {t.device for t in tensors if t.is_cuda}
    if len(devices) > 1:
        raise _mixed(row, tensors)
    with backend.cupy().cuda.Device(devices.pop().index):
        return recorder(*inputs, **attributes)


def _mixed(row: Op, tensors: list[Any]) -> RuntimeError:
    places = ", ".join(str(t.device) for t in tensors)
    return backend.DeviceError(
        f"{row.name}: Expected all tensors to be on the same device, but found at least two "
        f"devices: {places}; move them together with .to(device)"
    )


def refuse_others(row: Op, inputs: Any) -> None:
    """Raise TypeError for an input of a composite that is no Tensor. Source: PyTorch's text."""
    names = row.inputs * len(inputs) if row.variadic else row.inputs
    for k, (name, value) in enumerate(zip(names, inputs, strict=False), 1):
        if not isinstance(value, Binding.tensor) and not (value is None and name in row.optional):
            raise no_tensor(row.name, name, k, value)


def no_tensor(function: str, argument: str, position: int, found: Any) -> TypeError:
    """The error for an argument that must be a Tensor and is none, with the way to make one.
    Source: PyTorch's text as the first sentence.
    """
    way = ""
    if isinstance(found, bool | int | float | complex | list | tuple | np.generic):
        way = "; make one with gradhook.tensor(...)"
    elif _is_array(found):
        library = "numpy" if isinstance(found, np.ndarray) else "cupy"
        way = f"; make one with gradhook.from_{library}(...)"
    elif hasattr(found, "__dlpack__"):
        way = "; make one with gradhook.from_dlpack(...)"
    return TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, not "
        f"{type(found).__name__}{way}"
    )


def recover(
    row: Op, recorder: Any, error: Exception, inputs: Any, attributes: dict[str, Any]
) -> Any:
    """A forward raised: mend a 0-d CPU tensor beside CUDA tensors, else say in words what did not
    fit.
    """
    backend.check_fork()
    tensors = [x for x in inputs if isinstance(x, Binding.tensor)]
    kinds = {type(t._a) for t in tensors}
    if len(kinds) > 1:
        zero = [
            t
            for t in tensors
            if isinstance(t._a, np.ndarray) and t._a.ndim == 0 and t._node is None
        ]
        like = next(k for k in kinds if k is not np.ndarray)
        if zero and all(t in zero or not isinstance(t._a, np.ndarray) for t in tensors):
            moved = [
                make(backend.scalar(t._a[()], t._a.dtype, like)) if t in zero else t for t in inputs
            ]
            return recorder(*moved, **attributes)
        raise _mixed(row, tensors) from error
    shapes = [tuple(t._a.shape) for t in tensors]
    described = ", ".join(f"{tuple(t._a.shape)} {dtypes.of(t._a.dtype).name}" for t in tensors)
    if isinstance(error, ValueError | IndexError | TypeError) and not isinstance(
        error, np.exceptions.AxisError
    ):
        text = _size_mismatch(shapes) if "broadcast" in str(error) else None
        # the plain class: NumPy's own (of a cast that does not exist) take other arguments
        plain = (IndexError, TypeError)
        kind = next((c for c in plain if isinstance(error, c)), RuntimeError)
        raise kind(f"{row.name}: {text or error} (inputs: {described})") from error
    if isinstance(error, np.exceptions.AxisError):
        n = error.ndim or 0
        low, high = (-n, n - 1) if n else (-1, 0)
        raise IndexError(
            f"{row.name}: Dimension out of range (expected to be in range of [{low}, {high}], but "
            f"got {error.axis})"
        ) from error
    raise error


def _size_mismatch(shapes: list[tuple[int, ...]]) -> str | None:
    for a, b in pairwise(shapes):
        for k in range(1, min(len(a), len(b)) + 1):
            if a[-k] != b[-k] and 1 not in (a[-k], b[-k]):
                return (
                    f"The size of tensor a ({a[-k]}) must match the size of tensor b ({b[-k]}) at "
                    f"non-singleton "
                    f"dimension {max(len(a), len(b)) - k}; reshape or expand one of them"
                )
    return None


def composite_over(ops: Any, row: Op) -> Callable[..., Any]:
    """A composite of the table over Tensors. ops: `xp` over Tensors."""
    forward, takes = row.forward, row.takes

    def composite(*args: Any, **attributes: Any) -> Any:
        try:
            if takes is not None and args[0].dtype.kind not in takes:
                refuse_dtype(row, args[0].dtype)
            return forward(ops, *args, **attributes)
        except AttributeError:  # of what is no tensor
            refuse_others(row, args)
            raise

    composite.__name__, composite.__doc__ = row.name, row.doc
    return composite
