"""Every kernel against its formula in NumPy and float64, and its bandwidth against a copy.

Kernels of table functions come from gradhook.kernels.registry: a new one is checked as soon as it
is registered, with an array for each tensor input, or with the arguments of its row in SAMPLES. The
others have a row in bench/gpu_other_kernels.py. A kernel file that no check covers is a failure.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bench import raw
from bench.compare import compare
from bench.gpu_check import Check
from bench.suite_plugin import clock
from gradhook import backend, kernels, profiler
from gradhook.ops.namespace import FormulaNamespace
from gradhook.ops.sparse_pattern import Pattern
from gradhook.ops.table import TABLE

Array = Any
Shape = tuple[int, int]
SMALL, LARGE = (33, 257), (4096, 16384)  # LARGE: 256 MB of float32, more than any cache
ALLOWED = {"float32": 3e-5, "float16": 4e-3}  # of the largest expected value
ROUNDS, LEAST_BYTES = 5, 1 << 26


class Arguments(NamedTuple):
    arrays: list[Any]
    attributes: dict[str, Any]


def normal(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Normal numbers; of large arrays only the first million is drawn, and repeated."""
    n = min(int(np.prod(shape)), 1 << 20)
    drawn = np.random.default_rng(seed).standard_normal(n).astype(dtype)
    return np.resize(drawn, shape)


def _norm(*parts: str) -> Callable[[Shape, str], Arguments]:
    """Rows ("x", "g") and weights of one row ("w"), normalized over the last axis."""

    def make(shape: Shape, dtype: str) -> Arguments:
        arrays = [
            normal(shape[-1:] if part == "w" else shape, dtype, seed)
            for seed, part in enumerate(parts)
        ]
        return Arguments(arrays, {"axis": -1, "eps": 1e-5})

    return make


def _norm_vjp(shape: Shape, dtype: str) -> Arguments:
    """Of rows so few that one launch makes all gradients."""
    arrays, attributes = _norm("g", "x", "w")((min(shape[0], 33), shape[1]), dtype)
    return Arguments(arrays, {**attributes, "weight_shape": shape[-1:], "bias_shape": shape[-1:]})


def _arrays(dtype: str, *shapes: tuple[int, ...], **attributes: Any) -> Arguments:
    """Arrays of these shapes, of a matrix product."""
    return Arguments([normal(s, dtype, seed) for seed, s in enumerate(shapes)], attributes)


def _classes(shape: Shape) -> Array:
    return np.random.default_rng(1).integers(0, shape[1], shape[0])


def _picks(shape: Shape) -> Array:
    return np.random.default_rng(1).permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)


def _lines(shape: Shape) -> Array:
    """Every row once, in a drawn order."""
    return np.random.default_rng(1).permutation(shape[0])


def _logcumsumexp_vjp(shape: Shape, dtype: str) -> Arguments:
    x = normal(shape, dtype, 1)
    out = np.logaddexp.accumulate(x.astype("f8"), axis=-1).astype(dtype)
    return Arguments([normal(shape, dtype), x, out], {"axis": -1})


COLUMNS = {"axis": (0,), "eps": 1e-5}
SPREAD = {"axis": -1, "correction": 1, "keepdims": False}

# Arguments of kernels that take more than arrays of one shape, by the table function's name.
SAMPLES: dict[str, Callable[[Shape, str], Arguments]] = {
    "gelu_vjp": lambda s, d: Arguments([normal(s, d), normal(s, d, 1)], {"approximate": "none"}),
    "layer_norm": _norm("x", "w", "w"),
    "standardize_vjp": _norm("g", "x", "w"),
    "layer_norm_vjp": _norm_vjp,
    "batch_norm": lambda s, d: Arguments(_norm("x", "w", "w")(s, d).arrays, COLUMNS),
    "running_moments": lambda s, d: Arguments(
        [normal(s, d), normal(s[1:], d, 1), abs(normal(s[1:], d, 2))],
        {"axis": (0,), "momentum": 0.1},
    ),
    "var_vjp": lambda s, d: Arguments([normal(s[:1], d), normal(s, d, 1)], SPREAD),
    "std_vjp": lambda s, d: Arguments(
        [normal(s[:1], d), normal(s, d, 1), 1 + abs(normal(s[:1], d, 2))], SPREAD
    ),
    "var": lambda s, d: Arguments([normal(s, d)], {"axis": -1}),
    "std": lambda s, d: Arguments([normal(s, d)], {"axis": -1}),
    "cumsum": lambda s, d: Arguments([normal(s, d)], {"axis": -1}),
    "cumprod": lambda s, d: Arguments([np.cos(normal(s, d))], {"axis": 0}),
    "cumprod_vjp": lambda s, d: Arguments(
        [normal(s, d), np.cos(normal(s, d, 1)).astype(d)], {"axis": -1}
    ),
    "logcumsumexp_vjp": _logcumsumexp_vjp,
    "gather": lambda s, d: Arguments([normal(s, d), _picks(s)], {"axis": -1}),
    "gather_padded": lambda s, d: Arguments([normal(s, d), _picks(s)], {"axis": -1, "shape": s}),
    "scatter_zeros": lambda s, d: Arguments([normal(s, d), _picks(s)], {"axis": -1, "shape": s}),
    "scatter_add": lambda s, d: Arguments([normal(s, d), _picks(s), normal(s, d, 1)], {"axis": -1}),
    "scatter_rows": lambda s, d: Arguments([normal(s, d), _classes(s)], {"shape": (s[1], s[1])}),
    "take_index": lambda s, d: Arguments([normal(s, d)], {"index": (_lines(s),)}),
    "put_index": lambda s, d: Arguments([normal(s, d)], {"index": (_lines(s),), "shape": s}),
    "clear_index": lambda s, d: Arguments([normal(s, d)], {"index": (_lines(s)[: s[0] // 2],)}),
    "index_put": lambda s, d: Arguments(
        [normal(s, d), normal(s, d, 1)], {"index": (_lines(s),), "accumulate": True}
    ),
    "index_accumulate": lambda s, d: Arguments([normal(s, d), _lines(s)], {"axis": 0, "shape": s}),
    "index_add": lambda s, d: Arguments([normal(s, d), _lines(s), normal(s, d, 1)], {"axis": 0}),
    "nll_loss": lambda s, d: Arguments([normal(s, d), _classes(s)], {}),
    "nll_loss_input": lambda s, d: Arguments([normal((), d), _classes(s)], {"shape": s}),
    "cross_entropy": lambda s, d: Arguments([normal(s, d), _classes(s)], {"ignore_index": 3}),
    "cross_entropy_input": lambda s, d: Arguments([normal((), d), normal(s, d), _classes(s)], {}),
    "linear": lambda s, d: _arrays(d, (s[0], 70), (20, 70), (20,)),
    "linear_input": lambda s, d: _arrays(d, (s[0], 20), (20, 70)),
    "linear_weight": lambda s, d: _arrays(d, (s[0], 20), (s[0], 70)),
    "linear_parameters": lambda s, d: _arrays(d, (s[0], 20), (s[0], 70)),
    "matmul": lambda s, d: _arrays(d, (s[0], 70), (70, 20)),
    "matmul_left": lambda s, d: _arrays(d, (s[0], 20), (70, 20), shape=(s[0], 70)),
    "matmul_right": lambda s, d: _arrays(d, (s[0], 70), (s[0], 20), shape=(70, 20)),
    "sum_to": lambda s, d: Arguments([normal(s, d)], {"shape": s[1:]}),
    "sum": lambda s, d: Arguments([abs(normal(s, d)) / s[0]], {}),  # no float16 overflow
    "mean": lambda s, d: Arguments([abs(normal(s, d))], {}),
    "expand_mean": lambda s, d: Arguments([normal((), d)], {"shape": s}),
    "stack": lambda s, d: _arrays(d, s, s, axis=1),
    "concat": lambda s, d: _arrays(d, s, s, axis=1),
    "sparse_matmul": lambda s, d: _arrays(d, (s[0] * 8,), (s[0], s[1]), pattern=_pattern(s)),
    "sparse_sampled": lambda s, d: _arrays(d, s, s, pattern=_pattern(s)),
}


def checks(test_device: bool) -> Iterator[Check]:
    for name, kernel in sorted(_registered().items()):
        for dtype in ALLOWED:
            yield _equals_formula(name, kernel, dtype)
        if not test_device:
            yield from _registered_bandwidth(name, kernel)
    others = importlib.import_module("bench.gpu_other_kernels")
    yield from others.checks()
    if not test_device:
        yield from others.bandwidths()


def _registered() -> dict[str, Callable[..., Any]]:
    """Kernels by the table function's name. Importing the modules registers them."""
    registry = importlib.import_module("gradhook.kernels.registry")
    found: dict[str, Callable[..., Any]] = registry.KERNELS
    return found


def _sample(name: str, shape: Shape, dtype: str) -> Arguments:
    if name in SAMPLES:
        return SAMPLES[name](shape, dtype)
    row = TABLE[name]
    needed = [part for part in row.inputs if part not in row.optional]
    arrays = [normal(shape, dtype, seed) for seed in range(len(needed))]
    asked = [k for k, value in row.attributes.items() if value is inspect.Parameter.empty]
    return Arguments(arrays, {"axis": -1} if "axis" in asked else {})


def on_device(arrays: list[Array]) -> list[Any]:
    return [backend.to_device(array, "cuda") for array in arrays]


def placed(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with index arrays, and the places of a sparse matrix, on the device."""
    if "index" in attributes:
        return {**attributes, "index": tuple(on_device(attributes["index"]))}
    found = attributes.get("pattern")
    if found is None:
        return attributes
    indptr, indices = on_device([found.indptr, found.indices])
    return {**attributes, "pattern": Pattern(found.shape, indptr, indices)}


def _pattern(shape: Shape) -> Pattern:
    """A matrix (shape[0], shape[0]) with shape[0] rows of 8 entries."""
    n = shape[0]
    columns = np.random.default_rng(3).integers(0, n, n * 8)
    return Pattern((n, n), np.arange(0, n * 8 + 1, 8), columns)


def wide(array: Any) -> Any:
    """Floating arrays in float64, others as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def difference(found: Any, expected: Any) -> float:
    """The largest difference of outputs on the device, over the largest expected value."""
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        a = np.asarray(backend.to_host(a), np.float64)
        if a.shape != np.shape(b):
            return float("inf")
        scale = max(float(np.abs(b).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(a - b).max(initial=0)) / scale)
    return worst


def verdict(name: str, dtype: str, error: float, launched: Any) -> Check:
    detail = f"error {error:.1e}, allowed {ALLOWED[dtype]:.0e}, launches {launched.count}"
    ok = error <= ALLOWED[dtype] and launched.count > 0
    return Check("kernels", f"{name}, {dtype}", ok, detail, {"launches": launched.by_name()})


def failure(title: str, error: Exception) -> Check:
    return Check("kernels", title, False, f"{type(error).__name__}: {error}"[:160])


def _equals_formula(name: str, kernel: Callable[..., Any], dtype: str) -> Check:
    title = f"{name}, {dtype}"
    try:
        arrays, attributes = _sample(name, SMALL, dtype)
        with profiler.launches() as launched:
            found = kernel(*on_device(arrays), **placed(attributes))
        if found is NotImplemented:
            return Check("kernels", title, False, "declined these arguments: give it a SAMPLES row")
        formula = getattr(FormulaNamespace(np), name)
        expected = formula(*map(wide, arrays), **attributes)
    except Exception as error:
        return failure(title, error)
    return verdict(name, dtype, difference(found, expected), launched)


def _registered_bandwidth(name: str, kernel: Callable[..., Any]) -> Iterator[Check]:
    try:
        arrays, attributes = _sample(name, LARGE, "float32")
        given, options = on_device(arrays), placed(attributes)
        yield from bandwidth(name, lambda: kernel(*given, **options))
    except Exception as error:
        yield failure(f"{name}, bandwidth", error)


def bandwidth(name: str, step: Callable[[], Any]) -> Iterator[Check]:
    """Bytes a second, as the launch wrapper counts them, against a copy of as many bytes.

    Nothing for a step that moves too little to be bound by memory.
    """
    with profiler.launches() as launched:
        step()
    nbytes = launched.nbytes
    if nbytes < LEAST_BYTES:
        return
    copied = nbytes // 8  # float32 elements, each read once and written once
    steps = {"gradhook": step, "copy": raw.copy(copied, backend.cupy()).step}
    found = compare(steps, ROUNDS, clock=clock("cuda"))
    rate, copy = (nbytes / found[kind].seconds / 1e9 for kind in ("gradhook", "copy"))
    detail = f"{rate:.0f} GB/s, a copy {copy:.0f} GB/s: {rate / copy:.2f} of it"
    figures = {"bytes": nbytes, "GB/s": rate, "copy GB/s": copy}
    yield Check("kernels", f"{name}, bandwidth", None, detail, figures)


def uncovered(covered: set[str]) -> Check:
    """covered: the kernel files that checks of this run are about."""
    left = sorted(set(kernels.names()) - covered)
    detail = f"without a check: {', '.join(left)}" if left else ", ".join(kernels.names())
    return Check("kernels", "every kernel file has a check", not left, detail)
