"""dtype objects with PyTorch's names and NumPy's `==`, promotion, accumulation dtype, what may
require grad.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np


class dtype:
    """A tensor's element type. Compares equal to the NumPy dtype it stands for; `str` is
    `gradhook.float32`.
    """

    __slots__ = ("is_complex", "is_floating_point", "itemsize", "kind", "name", "np", "title")

    def __init__(self, name: str, np_name: str, title: str) -> None:
        self.name = name
        self.np = np.dtype(np_name)
        self.title = title
        self.kind = self.np.kind
        self.is_floating_point = self.kind == "f"
        self.is_complex = self.np.kind == "c"
        self.itemsize = self.np.itemsize

    @property
    def is_signed(self) -> bool:
        return self.np.kind in "ifc"

    def to_real(self) -> dtype:
        """The dtype of the real part: float32 of complex64."""
        return of(np.dtype(f"f{self.itemsize // 2}")) if self.is_complex else self

    def to_complex(self) -> dtype:
        """The complex dtype of this precision: complex64 of float32."""
        return of(complex_of(self.np))

    def __repr__(self) -> str:
        return f"gradhook.{self.name}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dtype):
            return self is other
        try:
            return bool(self.np == np.dtype(other))  # type: ignore[call-overload]
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.np)

    def __reduce__(self) -> Any:
        return of, (self.name,)


float16 = half = dtype("float16", "f2", "Half")
float32 = float_ = dtype("float32", "f4", "Float")
float64 = double = dtype("float64", "f8", "Double")
complex64 = cfloat = dtype("complex64", "c8", "ComplexFloat")
complex128 = cdouble = dtype("complex128", "c16", "ComplexDouble")
int8 = dtype("int8", "i1", "Char")
int16 = short = dtype("int16", "i2", "Short")
int32 = int_ = dtype("int32", "i4", "Int")
int64 = long = dtype("int64", "i8", "Long")
uint8 = dtype("uint8", "u1", "Byte")
bool_ = dtype("bool", "?", "Bool")

ALL = (float16, float32, float64, complex64, complex128, int8, int16, int32, int64, uint8, bool_)
_BY_NUMPY: dict[np.dtype[Any], dtype] = {d.np: d for d in ALL}
_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}

_default = float32


def of(value: Any) -> dtype:
    """The dtype object of a NumPy dtype, a name, a Python type or a dtype.

    Errors: TypeError names an element type gradhook has no dtype for.
    """
    if isinstance(value, dtype):
        return value
    if value is float:
        return _default
    found = _BY_NUMPY.get(np.dtype(value))
    if found is None:
        known = ", ".join(d.name for d in ALL)
        raise TypeError(
            f"can't convert {np.dtype(value)} to a gradhook dtype; the supported types are: {known}"
        )
    return found


def raw(value: Any) -> np.dtype[Any] | None:
    """The NumPy dtype of a dtype, a name or a Python type; None stays None."""
    return None if value is None else of(value).np


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats (float32 at start)."""
    return _default


def set_default_dtype(d: Any) -> None:
    """Set the dtype of tensors made from Python floats. Errors: TypeError for what is not floating
    point.
    """
    global _default
    found = of(d)
    if not found.is_floating_point:
        raise TypeError(
            f"only floating-point types are supported as the default type, found {found!r}"
        )
    _default = found


def complex_of(d: np.dtype[Any]) -> np.dtype[Any]:
    """complex64 for float32 and float16, complex128 for float64; integers by the default dtype."""
    if d.kind == "c":
        return d
    base = d if d.kind == "f" else _default.np
    return complex128.np if base.itemsize == 8 else complex64.np


def accumulation(d: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype sums are made in: float32 for float16, else the same."""
    return float32.np if d == float16.np else d


def is_differentiable(d: np.dtype[Any]) -> bool:
    """Only floating-point and complex tensors may require grad."""
    return d.kind in "fc"


def of_scalar(value: Any) -> np.dtype[Any]:
    """The dtype PyTorch gives a tensor made of this Python number."""
    if isinstance(value, bool):
        return bool_.np
    if isinstance(value, int):
        return int64.np
    if isinstance(value, complex):
        return complex_of(_default.np)
    return _default.np


def result_type(
    dims: list[np.dtype[Any]], zeros: list[np.dtype[Any]], scalars: list[Any]
) -> np.dtype[Any]:
    """PyTorch's promotion of tensors with dimensions, 0-d tensors and Python scalars, in falling
    priority.

    A lower priority takes part only when its category (bool < integer < floating < complex) is
    higher.
    Source: PyTorch documentation, tensor attributes, "type promotion".
    """
    result: np.dtype[Any] | None = None
    for group in (dims, zeros, [of_scalar(s) for s in scalars]):
        if group:
            found = reduce(promote_types, group)
            result = found if result is None else _combined(result, found)
    assert result is not None
    return result


def _combined(higher: np.dtype[Any], lower: np.dtype[Any]) -> np.dtype[Any]:
    """The higher priority's dtype, unless the lower one has a higher category; a floating dtype
    that meets a complex number keeps its precision.
    """
    if _CATEGORY[lower.kind] <= _CATEGORY[higher.kind]:
        return higher
    if higher.kind == "f":
        return complex_of(higher)
    return promote_types(higher, lower)


def promote_types(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """PyTorch's promote_types: as NumPy's, but integer with floating is the floating one, f16
    stays beside ints.
    """
    if a == b:
        return a
    low, high = (a, b) if _CATEGORY[a.kind] <= _CATEGORY[b.kind] else (b, a)
    if _CATEGORY[low.kind] < 2 <= _CATEGORY[high.kind]:
        return high
    return np.promote_types(a, b)


class finfo:
    """Limits of a floating-point dtype: bits, eps, min, max, tiny, smallest_normal, resolution
    (Python numbers).
    """

    def __init__(self, type: Any = None) -> None:
        d = _default if type is None else of(type)
        if d.np.kind not in "fc":
            raise TypeError(
                f"gradhook.finfo() requires a floating point input type, found {d!r}; use iinfo"
            )
        limits = np.finfo(d.np)
        self.dtype = d.to_real().name
        self.bits = int(limits.bits)
        self.eps, self.min, self.max = float(limits.eps), float(limits.min), float(limits.max)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: bits, min, max (Python ints)."""

    def __init__(self, type: Any) -> None:
        d = of(type)
        if d.np.kind not in "iu":
            raise TypeError(
                f"gradhook.iinfo() requires an integer input type, found {d!r}; use finfo"
            )
        limits = np.iinfo(d.np)
        self.dtype, self.bits, self.min, self.max = (
            d.name,
            int(limits.bits),
            int(limits.min),
            int(limits.max),
        )

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


__all__ = [
    "cdouble", "cfloat", "complex64", "complex128", "double", "dtype", "finfo", "float16",
    "float32", "float64",
    "get_default_dtype", "half", "iinfo", "int8", "int16", "int32", "int64", "long",
    "set_default_dtype",
    "short", "uint8",
]  # fmt: skip
