"""How a tensor prints: PyTorch's layout (`tensor([[1., 1.], [1., 1.]])`), four digits, summarised
above 1000 elements.

Source: PyTorch's printed forms; `set_printoptions` takes precision, threshold, edgeitems,
linewidth, sci_mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradhook import dtypes


@dataclass(slots=True)
class PrintOptions:
    """precision: digits after the point; threshold: elements above which a tensor is summarised to
    edgeitems an end of each axis; linewidth: characters; sci_mode: True, False or None (decide by
    the values)."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = PrintOptions()


def set_printoptions(**options: Any) -> None:
    """Set precision, threshold, edgeitems, linewidth or sci_mode of printed tensors."""
    for name, value in options.items():
        if name not in PrintOptions.__slots__:
            raise TypeError(
                f"set_printoptions: no option {name!r}, expected some of "
                f"{list(PrintOptions.__slots__)}"
            )
        setattr(OPTIONS, name, value)


class Format:
    """The common form of a tensor's numbers: integers as `1.`, decimals, or scientific."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.floating = values.dtype.kind == "f"
        self.boolean = values.dtype.kind == "b"
        self.integers = self.scientific = False
        if self.floating:
            self._choose(values[np.isfinite(values)].astype(np.float64))
        measured = values.ravel()
        if self.floating:  # as PyTorch: zeros and non-finite numbers do not widen the column
            measured = measured[np.isfinite(measured) & (measured != 0)]
        self.width = max((len(self.bare(v)) for v in measured), default=1)

    def _choose(self, finite: np.ndarray[Any, Any]) -> None:
        magnitudes = np.abs(finite[finite != 0])
        self.integers = bool(np.all(np.ceil(finite) == finite))
        if not magnitudes.size:
            return
        low, high = float(magnitudes.min()), float(magnitudes.max())
        self.scientific = high / low > 1000.0 or high > 1.0e8
        if not self.integers:
            self.scientific = self.scientific or low < 1.0e-4
        if OPTIONS.sci_mode is not None:
            self.scientific = OPTIONS.sci_mode

    def bare(self, value: Any) -> str:
        if self.boolean:
            return str(bool(value))
        if not self.floating:
            return str(int(value))
        v = float(value)
        if self.scientific:
            return f"{v:.{OPTIONS.precision}e}"
        if not math.isfinite(v):
            return str(v)
        return f"{v:.0f}." if self.integers else f"{v:.{OPTIONS.precision}f}"

    def __call__(self, value: Any) -> str:
        return self.bare(value).rjust(self.width)


class ComplexFormat:
    """Real and imaginary part, each in its own form."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.real, self.imag = Format(values.real), Format(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: Any) -> str:
        imag = self.imag(value.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real(value.real)}{sign}{imag}j"


def _sample(a: np.ndarray[Any, Any], summarise: bool) -> np.ndarray[Any, Any]:
    if not summarise:
        return a
    n = OPTIONS.edgeitems
    for axis in range(a.ndim):
        if a.shape[axis] > 2 * n:
            a = np.concatenate([a.take(range(n), axis), a.take(range(-n, 0), axis)], axis)
    return a


def _body(a: np.ndarray[Any, Any], indent: int, summarise: bool, form: Any) -> str:
    if a.ndim == 0:
        return str(form(a[()]))
    n = OPTIONS.edgeitems
    shortened = summarise and a.shape[0] > 2 * n
    if a.ndim == 1:
        per_line = max(1, math.floor((OPTIONS.linewidth - indent) / (form.width + 2)))
        items = [form(v) for v in a] if not shortened else [
            *(form(v) for v in a[:n]), " ...", *(form(v) for v in a[-n:])]  # fmt: skip
        lines = [items[k : k + per_line] for k in range(0, len(items), per_line)] or [[]]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"
    rows = [*a[:n], None, *a[-n:]] if shortened else list(a)
    texts = ["..." if r is None else _body(r, indent + 1, summarise, form) for r in rows]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(texts) + "]"


def tensor_repr(
    values: np.ndarray[Any, Any], prefix: str, place: list[str], history: list[str]
) -> str:
    """`prefix` + the values + place + size + dtype + history + ")", broken at the line width.
    values: host array of any shape and dtype.
    """
    defaults = (
        dtypes.get_default_dtype().np,
        np.dtype("i8"),
        np.dtype("?"),
        dtypes.complex_of(dtypes.get_default_dtype().np),
    )
    indent = len(prefix)
    suffixes = list(place)
    if values.size == 0:
        text = "[]"
        if values.ndim != 1:
            suffixes.append(f"size={tuple(values.shape)}")
        if values.dtype != defaults[0]:
            suffixes.append(f"dtype={dtypes.of(values.dtype)!r}")
    else:
        summarise = values.size > OPTIONS.threshold
        shown = _sample(values, summarise)
        form = ComplexFormat(shown) if values.dtype.kind == "c" else Format(shown)
        text = _body(values, indent, summarise, form)
        if values.dtype not in defaults:
            suffixes.append(f"dtype={dtypes.of(values.dtype)!r}")
    out = prefix + text
    last = len(out) - out.rfind("\n") - 1
    for suffix in suffixes + history:
        if last + len(suffix) + 2 > OPTIONS.linewidth:
            out += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            out += ", " + suffix
            last += len(suffix) + 2
    return out + ")"
