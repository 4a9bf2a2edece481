"""Formulas on symbols give kernels that equal them, of ops too whose forward is more than one
pass; what is not done element by element is refused. Whole ops: test_native_fused.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from gradhook.autograd.fusion import Fused
from gradhook.native import library
from gradhook.ops.namespace import FormulaNamespace
from gradhook.ops.symbols import Part, traced
from gradhook.ops.table import TABLE

XP = FormulaNamespace(np)
native = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 30.0, -30.0, 1e-20]
# sin and cos of floats are the C library's vector functions: at most 4 ulp; a chain adds to them
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}


def is_single(row):
    return row.n_outputs == 1 and not (row.composite or row.view or row.variadic)


def formulas():
    for name, row in sorted(TABLE.items()):
        if not is_single(row):
            continue
        for of, formula in row.formulas.items():
            if formula is None or "needs" in formula.parameters:
                continue
            tensors = [p for p in formula.parameters if p in ("g", "out", *row.inputs)]
            part = Part(formula.fn, tuple(formula.parameters))
            if traced([part], tensors, dict(row.attributes)) is not None:
                options = {k: v for k, v in row.attributes.items() if k in formula.parameters}
                yield pytest.param(part, tensors, options, id=f"{name} for {of}")


CASES = [*formulas()]


@native
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize(("part", "tensors", "options"), CASES)
def test_a_traced_formula_equals_it_on_arrays(part, tensors, options, dtype):
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.05, 0.95, 1003).astype(dtype) for _ in tensors]
    for k, a in enumerate(arrays):
        a[: len(SPECIAL)] = np.roll(SPECIAL, 3 * k)
        a[500:700] *= -3
    found = Fused([part], tensors, tuple(options))(arrays, tuple(options.values()))
    assert found is not None
    wide = dict(zip(tensors, (a.astype("f8") for a in arrays), strict=True)) | options
    exact = dict(zip(tensors, arrays, strict=True)) | options
    with np.errstate(all="ignore"):
        reference = part.function(XP, *(wide[n] for n in part.given))
        own = part.function(XP, *(exact[n] for n in part.given))
    reference, own = (np.broadcast_to(r, (1003,)) for r in (reference, own))
    assert found[0].dtype == dtype
    finite = np.isfinite(own) & np.isfinite(reference)
    assert np.array_equal(np.isnan(found[0]), np.isnan(own))
    assert np.array_equal(np.isfinite(found[0]) & finite, finite)
    # near a cancellation the digits that NumPy's own rounding leaves are what can be asked for
    near, exactly, theirs = (v[finite] for v in (found[0], reference, own))
    error = np.abs(near - exactly)
    allowed = TOLERANCE[dtype] * np.abs(exactly) + 2 * np.abs(theirs - exactly)
    assert (error <= allowed + np.finfo(dtype).tiny + TOLERANCE[dtype]).all()


@pytest.mark.parametrize("name", ["sum", "matmul", "softmax", "cumsum", "argmax", "sort", "where"])
def test_what_is_more_than_element_by_element_is_not_traced(name):
    row = TABLE[name]
    part = Part(row.forward, row.inputs, tuple(row.attributes))
    assert traced([part], row.inputs, dict(row.attributes)) is None
