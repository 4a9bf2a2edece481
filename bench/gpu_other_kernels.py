"""Checks of the kernels that belong to no table function: accumulate, device hooks, optimizers,
dropout's random numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.gpu_check import Check
from bench.gpu_kernels import (
    LARGE,
    SMALL,
    bandwidth,
    difference,
    failure,
    normal,
    on_device,
    uncovered,
    verdict,
    wide,
)
from bench.rows import library
from gradhook import backend, kernels, profiler


def checks() -> Iterator[Check]:
    for _, rows in OTHERS:
        try:
            yield from rows()
        except Exception as error:
            yield failure(rows.__name__.strip("_"), error)
    registered = {
        "elements",
        "loss",
        "norms",
        "product",
        "rows",
        "scans",
        "scatter",
    }  # of kernels of table functions
    yield uncovered(registered | {file for file, _ in OTHERS})


def _accumulate() -> Iterator[Check]:
    for dtype in ("float32", "float16"):
        for count in (2, 8, 40):
            arrays = [normal(SMALL, dtype, seed) for seed in range(count)]
            given = on_device(arrays)
            with profiler.launches() as launched:
                total = kernels.accumulate(given)
            error = difference(total, sum(map(wide, arrays)))
            yield verdict(f"accumulate {count}", dtype, error, launched)


def _gradient() -> Iterator[Check]:
    """Three gradients summed, scaled and observed in one launch."""
    module = importlib.import_module("gradhook.kernels.gradient")
    arrays = [normal(SMALL, "float32", seed) for seed in range(3)]
    given = on_device(arrays)
    noted = backend.cupy().zeros(module.SIZE, np.float64)
    stages = [module.Stage("g * {0}", (0.5,)), module.Stage(noted=noted, observes=True)]
    with profiler.launches() as launched:
        found = module.fused(given, stages)
    expected = 0.5 * sum(map(wide, arrays))
    yield verdict("accumulate 3, scale", "float32", difference(found, expected), launched)
    totals = [expected.min(), expected.max(), expected.sum(), (expected**2).sum(), 0, 0, 0]
    error = difference(noted[:8], np.array([*totals, expected.size]))
    yield verdict("statistics", "float32", error, launched)
    one = Check("kernels", "both in one launch", launched.count == 1, f"{launched.count} launches")
    yield one


def _optimizers() -> Iterator[Check]:
    """Five steps on the device against five steps of the same optimizer in NumPy and float64."""
    optim = library("gradhook").optim
    cases: list[tuple[str, Callable[[Any], Any]]] = [
        ("SGD, momentum", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
        ("Adam", lambda p: optim.Adam(p, lr=0.1)),
        ("AdamW", lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1)),
        ("NAdam", lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1)),
        ("RAdam", lambda p: optim.RAdam(p, lr=0.1)),
        ("Adamax", lambda p: optim.Adamax(p, lr=0.1)),
        ("Adagrad", lambda p: optim.Adagrad(p, lr=0.1)),
        ("Adadelta", lambda p: optim.Adadelta(p, lr=0.1)),
        ("RMSprop", lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True)),
        ("Rprop", lambda p: optim.Rprop(p, lr=0.1)),
        ("ASGD", lambda p: optim.ASGD(p, lr=0.1, t0=2)),
    ]
    for name, make in cases:
        with profiler.launches() as launched:
            found = _trained(make, "cuda", "float32")
        expected = _trained(make, "cpu", "float64")
        error = max(difference(a, b) for a, b in zip(found, expected, strict=True))
        yield verdict(f"{name}, clip_grad_norm_", "float32", error, launched)


def _trained(make: Callable[[Any], Any], device: str, dtype: str) -> list[Any]:
    """Parameters of four shapes after five steps with drawn gradients, clipped to norm 1."""
    lib = library("gradhook")
    start = [normal(s, "float32", seed) for seed, s in enumerate([SMALL, (7,), (), (129, 3)])]
    parameters = [
        lib.tensor(np.asarray(a, dtype), device=device, requires_grad=True) for a in start
    ]
    optimizer = make(parameters)
    for step in range(5):
        optimizer.zero_grad()
        for seed, parameter in enumerate(parameters):
            gradient = normal(tuple(parameter.shape), "float32", 10 * step + seed)
            parameter.grad = lib.tensor(np.asarray(gradient, dtype), device=device)
        lib.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return [parameter.detach().cpu().numpy() for parameter in parameters]


def philox(counters: Any, key: int) -> Any:
    """Philox-4x32-10 of counters, uint64 (n, 4), and a 64-bit key. Result: uint64 (n, 4) < 2^32.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    c0, c1, c2, c3 = counters.T.astype(np.uint64)
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (b >> shift) ^ c1 ^ np.uint64(keys[0]),
            b & low32,
            (a >> shift) ^ c3 ^ np.uint64(keys[1]),
            a & low32,
        )
        keys = [(k + w) & 0xFFFFFFFF for k, w in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return np.stack([c0, c1, c2, c3], axis=1)


def _dropout() -> Iterator[Check]:
    """Dropout's factors are Philox's numbers, element by element."""
    elements = importlib.import_module("gradhook.kernels.elements")
    seed, offset, p, n = 0x123456789ABCDEF, (1 << 33) + 5, 0.25, 8481
    with profiler.launches() as launched:
        found = elements.dropout_factor((n,), np.dtype(np.float32), p, seed, offset)
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    counters = np.stack([blocks, 0 * blocks, blocks * 0 + 5, blocks * 0 + 2], axis=1)
    words = philox(counters, seed).reshape(-1)[:n] >> np.uint64(8)
    expected = np.where(words.astype(np.float64) / 2**24 >= p, 1 / (1 - p), 0)
    yield verdict("dropout's factors", "float32", difference(found, expected), launched)


def bandwidths() -> Iterator[Check]:
    """Of accumulate and Adam over 256 MB arrays."""
    lib = library("gradhook")
    given = on_device([normal(LARGE, "float32")] * 4)
    yield from bandwidth("accumulate 4", lambda: kernels.accumulate(given))
    parameters = [lib.zeros(*LARGE, device="cuda", requires_grad=True) for _ in range(2)]
    for parameter in parameters:
        parameter.grad = lib.ones(*LARGE, device="cuda")
    yield from bandwidth("Adam", lib.optim.Adam(parameters).step)


# The kernel file, and its rows.
OTHERS: list[tuple[str, Callable[[], Iterator[Check]]]] = [
    ("accumulate", _accumulate),
    ("gradient", _gradient),
    ("optimizer", _optimizers),
    ("elements", _dropout),
]
