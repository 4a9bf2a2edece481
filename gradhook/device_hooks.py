"""Hooks that run on the device, in the kernel that accumulates the gradient.

    statistics = gradhook.device_hooks.Statistics()
    tensor.register_hook(gradhook.device_hooks.ClipValue(-1, 1))
    module.register_full_backward_pre_hook(statistics)
    ...
    statistics.stats()  # the only host read

They stand in the order of all hooks and do what a Python hook written with tensor operations does;
those side by side run as one launch, together with the accumulation where they come first. On
NumPy arrays, and under create_graph, they run as array functions. A module hook treats each of its
gradients: a pre-hook those of the outputs, a full hook those of the inputs.
Contract: HOOKS.md A2 B18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAYS, FORMULA_NAMESPACES
from gradhook.autograd.record import ops
from gradhook.hooks.declared import DeclaredHook
from gradhook.kernels import gradient
from gradhook.kernels.gradient import Stage
from gradhook.modes import get_modes
from gradhook.tensor import Tensor


class DeviceHook(DeclaredHook):
    """Base of device hooks. A subclass that changes the gradient defines `change` and `formula`."""

    change = ""
    numbers: tuple[float, ...] = ()

    def formula(self, xp: Any, g: Any) -> Any:
        """The new gradient, over arrays or Tensors. xp: the op table's functions."""
        return g

    def stages(self, array: Any) -> Sequence[Stage]:
        """The steps for a CuPy array."""
        return (Stage(self.change, self.numbers),)

    def observe(self, array: Any) -> None:
        """Note what there is to note, by array functions."""

    def applied(self, array: Any) -> Any:
        """The gradient after the hook, by array functions."""
        self.observe(array)
        changed = self.formula(FORMULA_NAMESPACES[type(array)], array)
        return array if changed is array else ARRAYS.conform(changed, array.shape, array.dtype)

    def _one(self, grad: Tensor) -> Tensor | None:
        if get_modes().grad and grad.requires_grad:  # create_graph: recorded, as any Python hook
            self.observe_any(grad._a)
            changed = self.formula(ops, grad)
            return None if changed is grad else changed
        found = ARRAYS.add([grad._a], [self])
        return None if found is grad._a else make(found)

    def observe_any(self, array: Any) -> None:
        """Note an array of any device, without changing it."""
        noting = [s for s in self.stages(array) if s.observes] if gradient.takes(array) else []
        if noting:
            gradient.fused([array], noting)
        elif not gradient.takes(array):
            self.observe(array)

    def __call__(self, *args: Any) -> Any:
        """As a tensor hook (grad), a module pre-hook (module, grad_output) or a full module hook
        (module, grad_input, grad_output).
        """
        if len(args) == 1:
            return None if args[0] is None else self._one(args[0])
        changed, result = self._each(args[1])
        return result if changed else None

    def _each(self, grads: Any) -> tuple[bool, Any]:
        if isinstance(grads, Tensor):
            found = self._one(grads)
            return found is not None, grads if found is None else found
        if not isinstance(grads, (tuple, list, dict)):
            return False, grads
        values = grads.values() if isinstance(grads, dict) else grads
        pairs = [self._each(g) for g in values]
        if not any([changed for changed, _ in pairs]):
            return False, grads
        results = [result for _, result in pairs]
        if isinstance(grads, dict):
            return True, type(grads)(zip(grads, results, strict=True))
        return True, grads._make(results) if hasattr(grads, "_make") else type(grads)(results)


class Scale(DeviceHook):
    """grad * factor."""

    change = "scale<{F}>(g, {0})"

    def __init__(self, factor: float) -> None:
        self.factor = float(factor)
        self.numbers = (self.factor,)

    def formula(self, xp: Any, g: Any) -> Any:
        return g * self.factor


class ClipValue(DeviceHook):
    """The gradient cut to [low, high], or to [-limit, limit]; NaN stays. ValueError: low > high."""

    change = "clip_value<{F}>(g, {0}, {1})"

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low, self.high = (-float(low), float(low)) if high is None else (low, float(high))
        if not self.low <= self.high:
            raise ValueError(f"ClipValue: found low {self.low} above high {self.high}")
        self.numbers = (self.low, self.high)

    def formula(self, xp: Any, g: Any) -> Any:
        return xp.minimum(xp.maximum(g, self.low), self.high)


class NanToNum(DeviceHook):
    """NaN, inf and -inf replaced; the infinite ones by the dtype's limits unless given."""

    change = "nan_to_num<{F}>(g, {0}, {1}, {2})"

    def __init__(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> None:
        self.nan, self.posinf, self.neginf = nan, posinf, neginf

    def stages(self, array: Any) -> Sequence[Stage]:
        largest = 3.3895314e38 if array.dtype.name == "bfloat16" else np.finfo(array.dtype).max
        high = float(largest) if self.posinf is None else self.posinf
        low = -float(largest) if self.neginf is None else self.neginf
        return (Stage(self.change, (self.nan, high, low)),)

    def formula(self, xp: Any, g: Any) -> Any:
        return xp.nan_to_num(g, nan=self.nan, posinf=self.posinf, neginf=self.neginf)


class User(DeviceHook):
    """A functor of your own.

    change: a C++ expression of the new element over `g` and the numbers, written {0}, {1}, ...;
    `{F}` is the type it is computed in (float, double for float64). formula: the same as
    `formula(xp, g)`, a pure expression over the op table's functions: the reference, and what runs
    on NumPy arrays and under create_graph.
    """

    def __init__(
        self, change: str, formula: Callable[[Any, Any], Any], numbers: Sequence[float] = ()
    ) -> None:
        self.change, self.function, self.numbers = change, formula, tuple(numbers)

    def formula(self, xp: Any, g: Any) -> Any:
        return self.function(xp, g)


class Observer(DeviceHook):
    """Base of hooks that note something of each gradient in a buffer on its device.

    decay: of running means; bins: count magnitudes, too.
    """

    decay = 0.0
    bins = False

    def __init__(self) -> None:
        self._noted: dict[Any, Any] = {}

    def _buffer(self, array: Any) -> Any:
        """The buffer on the array's device, all zero at first."""
        key = backend.device_of(array)
        found = self._noted.get(key)
        if found is None:
            module = backend.array_module(array)
            found = self._noted[key] = module.zeros(gradient.SIZE, np.float64)
        return found

    def stages(self, array: Any) -> Sequence[Stage]:
        stage = Stage(noted=self._buffer(array), observes=True, bins=self.bins, decay=self.decay)
        return (stage,)

    def observe(self, array: Any) -> None:
        if array.dtype.kind == "c" or backend.is_cupy(array):
            raise TypeError(
                f"{type(self).__name__}: found a gradient of {array.dtype}, expected real floats"
            )
        note(self._buffer(array), array, self.decay, self.bins)

    def reset(self) -> None:
        """Forget what was noted."""
        for buffer in self._noted.values():
            buffer.fill(0)

    def _read(self) -> np.ndarray[Any, Any]:
        """The buffer in host memory, that of all devices together. Waits for the device."""
        found = [backend.to_host(b) for b in self._noted.values()]
        if not found:
            return np.zeros(gradient.SIZE)
        total = found[0].copy()
        for other in found[1:]:
            join(total, other)
        return total

    def stats(self) -> dict[str, Any]:
        """What was noted since the start or the last reset. Waits for the device."""
        raise NotImplementedError(type(self).__name__)


class Statistics(Observer):
    """Minimum, maximum, sum and sum of squares of the finite elements, how many there are, and
    how many zeros, NaN and Inf.

    histogram: also how many finite ones lie in [2**(k - 40), 2**(k - 39)), 64 bins.
    """

    def __init__(self, histogram: bool = False) -> None:
        super().__init__()
        self.bins = histogram

    def stats(self) -> dict[str, Any]:
        """gradients, count, min, max, mean, sum, sum_squares, zeros, nans, infs; histogram: 64
        counts. min, max and mean are NaN of nothing.
        """
        noted = self._read()
        low, high, total, squares, zeros, nans, infs, count = (float(x) for x in noted[:8])
        finite = count - nans - infs
        found: dict[str, Any] = {
            "gradients": int(noted[gradient.GRADIENTS]),
            "count": int(count),
            "min": low if finite else math.nan,
            "max": high if finite else math.nan,
            "mean": total / finite if finite else math.nan,
            "sum": total,
            "sum_squares": squares,
            "zeros": int(zeros),
            "nans": int(nans),
            "infs": int(infs),
        }
        if self.bins:
            found["histogram"] = noted[gradient.BINS :].astype(np.int64)
        return found


class AbsMax(Observer):
    """The largest absolute value of the finite elements since the last reset."""

    def stats(self) -> dict[str, Any]:
        """gradients, absmax (0 of nothing)."""
        noted = self._read()
        largest = max(abs(float(noted[0])), abs(float(noted[1])))
        return {"gradients": int(noted[gradient.GRADIENTS]), "absmax": largest}


class EMA(Observer):
    """Running means of the gradients' means and mean squares: each gradient weighs 1 - decay, older
    ones decay times less; corrected for the start from zero, as in Adam.

    ValueError unless 0 <= decay < 1.
    """

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"EMA: found decay {decay}, expected 0 <= decay < 1")
        self.decay = float(decay)

    def stats(self) -> dict[str, Any]:
        """gradients, mean, mean_square; NaN of nothing."""
        noted = self._read()
        steps = int(noted[gradient.GRADIENTS])
        weight = 1 - self.decay**steps
        mean, square = noted[gradient.MEAN], noted[gradient.MEAN_SQUARE]
        return {
            "gradients": steps,
            "mean": float(mean / weight) if steps else math.nan,
            "mean_square": float(square / weight) if steps else math.nan,
        }


class ClipNorm(Observer):
    """The gradient times min(1, limit / (norm + 1e-6)), norm being that of this gradient alone: two
    passes, so a launch of its own.
    """

    change = "g * norm_factor<{F}>({noted}, {0})"

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = float(limit)

    def stages(self, array: Any) -> Sequence[Stage]:
        noted = self._buffer(array)
        return (
            Stage(noted=noted, observes=True),
            Stage(self.change, (self.limit,), noted=noted, apart=True),
        )

    def formula(self, xp: Any, g: Any) -> Any:
        norm = xp.sqrt(xp.sum(xp.square(g)))
        return g * xp.minimum(self.limit / (norm + 1e-6), 1.0)

    def observe(self, array: Any) -> None:
        if not backend.is_cupy(array) and array.dtype.kind != "c":
            super().observe(array)

    def stats(self) -> dict[str, Any]:
        """gradients, norm (of the last one)."""
        noted = self._read()
        return {
            "gradients": int(noted[gradient.GRADIENTS]),
            "norm": float(noted[gradient.LAST_SQUARES]) ** 0.5,
        }


# ---- the buffer, by array functions: the reference of kernels/gradient.cu


def note(noted: np.ndarray[Any, Any], g: np.ndarray[Any, Any], decay: float, bins: bool) -> None:
    """Add a gradient to a buffer of Totals, running means and bins."""
    wide = np.asarray(g).astype(np.float64).reshape(-1)
    finite = wide[np.isfinite(wide)]
    nans, infs = np.isnan(wide).sum(), np.isinf(wide).sum()
    squares = float((finite * finite).sum())
    new = np.zeros(gradient.SIZE)
    if finite.size:
        new[:2] = finite.min(), finite.max()
    new[2:8] = finite.sum(), squares, (wide == 0).sum(), nans, infs, wide.size
    if bins:
        sizes = np.abs(finite[finite != 0])
        places = np.clip(np.frexp(sizes)[1] - 1 + 40, 0, 63)
        new[gradient.BINS :] = np.bincount(places, minlength=64)
    new[gradient.GRADIENTS] = 1
    join(noted, new)
    noted[gradient.LAST_SQUARES] = math.nan if nans else math.inf if infs else squares
    n = max(finite.size, 1)
    for place, value in ((gradient.MEAN, new[2] / n), (gradient.MEAN_SQUARE, squares / n)):
        noted[place] = decay * noted[place] + (1 - decay) * value


def join(total: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> None:
    """Add the counts of one buffer to another."""
    if other[7] > other[5] + other[6]:
        empty = not total[7] > total[5] + total[6]
        total[0] = other[0] if empty else min(total[0], other[0])
        total[1] = other[1] if empty else max(total[1], other[1])
    total[2 : gradient.LAST_SQUARES] += other[2 : gradient.LAST_SQUARES]
    total[gradient.BINS :] += other[gradient.BINS :]


__all__ = [
    "EMA", "AbsMax", "ClipNorm", "ClipValue", "DeviceHook", "NanToNum", "Observer", "Scale",
    "Statistics", "User",
]  # fmt: skip
