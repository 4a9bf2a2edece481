"""What the tests of native kernels share: formulas without kernels, unusual numbers, layouts."""

from __future__ import annotations

from unittest import mock

import numpy as np

from gradhook.kernels import host_convolution, host_pooling
from gradhook.ops import namespace
from gradhook.ops.table import TABLE

TOLERANCE = {"float32": 4e-6, "float64": 1e-14}
DTYPES = sorted(TOLERANCE)
CONVOLUTIONS = {
    host_convolution: ["convolution", "convolution_input", "convolution_weight"],
    host_pooling: ["max_pool", "plane_scatter"],
}


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def cast(arrays, dtype):
    return [a if a is None or a.dtype.kind == "i" else a.astype(dtype) for a in arrays]


def formula(name, *arrays, **attributes):
    """The table's function without kernels."""
    row = TABLE[name]
    no_kernels = lambda _name, _module, fallback: fallback  # noqa: E731
    none = lambda *_, **__: NotImplemented  # noqa: E731
    native = [(m, n) for m, names in CONVOLUTIONS.items() for n in names]
    with mock.patch.object(namespace, "with_kernel", no_kernels), np.errstate(all="ignore"):
        xp = namespace.TableNamespace(np) if row.composite else np
        patches = [mock.patch.object(m, n, none) for m, n in native]
        for patch in patches:
            patch.start()
        try:
            return row.forward(xp, *arrays, **attributes)
        finally:
            for patch in patches:
                patch.stop()


def dispatched(name, *arrays, **attributes):
    """What an op does: the first kernel that takes the arrays, else the formula."""
    return getattr(namespace.TableNamespace(np), name)(*arrays, **attributes)


def several(found):
    return found if type(found) in (tuple, list) else (found,)


def expect(found, reference, tolerance):
    found, reference = several(found), several(reference)
    assert len(found) == len(reference)
    for a, b in zip(found, reference, strict=True):
        assert (a is None) == (b is None)
        if a is None:
            continue
        assert a.shape == b.shape
        with np.errstate(invalid="ignore"):
            finite = b[np.isfinite(b)]
            bound = tolerance * max(1.0, float(np.abs(finite).max(initial=0)))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=bound)


def with_nan(x):
    x.flat[x.size // 2] = np.nan


def with_infinity(x):
    x.flat[x.size // 3] = np.inf
    x.flat[-1] = -np.inf


def with_minus_infinity(x):
    x.flat[x.size // 3] = -np.inf


def tiny(x):
    x *= np.finfo(x.dtype).smallest_subnormal * 1000


def huge(x):
    x *= np.finfo(x.dtype).max / 1e3 / max(1, np.abs(x).max())


def far_apart(x):
    x.flat[::3] *= np.finfo(x.dtype).max / 1e6 / max(1, np.abs(x).max())


UNUSUAL = [with_nan, with_infinity, with_minus_infinity, tiny, huge, far_apart]


LAYOUTS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "misaligned": lambda a: misaligned(a),
}


def misaligned(a):
    room = np.zeros(a.nbytes + 1, np.uint8)[1:]
    found = room.view(a.dtype).reshape(a.shape)
    found[...] = a
    return found
