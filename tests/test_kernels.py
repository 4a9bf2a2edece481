"""Kernel sources are found, compile natively, and accumulate equals sums rounded once."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from gradhook import backend, kernels, memory
from gradhook.kernels.registry import HOST_KERNELS, KERNELS
from gradhook.ops.table import TABLE

CARRIERS = ["numpy", pytest.param("cupy", marks=pytest.mark.cuda)]
DTYPES = ["float16", "float32", "float64", "complex64", "complex128", "int64"]

KERNELS_BY_NAME = [
    pytest.param(registered, name, id=f"{where}-{name}")
    for where, registered in (("cuda", KERNELS), ("numpy", HOST_KERNELS))
    for name in registered
]


@pytest.fixture(params=CARRIERS)
def put(request):
    """Puts a NumPy array on the device under test, strides kept."""
    if request.param == "numpy":
        return lambda array: array
    if not backend.is_available():
        pytest.skip(f"needs CUDA: {backend.why_not()}")
    return lambda array: backend.to_device(array, "cuda")


def random_arrays(count, shape, dtype):
    rng = np.random.default_rng(count)
    return [(rng.standard_normal(shape) * 9).astype(dtype) for _ in range(count)]


def rounded_once(arrays):
    """The reference: left to right in the wide type, one rounding."""
    dtype = arrays[0].dtype
    wide = np.float32 if dtype == np.float16 else dtype
    total = np.zeros(arrays[0].shape, wide)
    for array in arrays:
        total = total + array.astype(wide)
    return np.asarray(total).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)])
def test_accumulate_is_the_sum_from_left_to_right_rounded_once(put, dtype, count, shape):
    arrays = random_arrays(count, shape, dtype)
    total = kernels.accumulate([put(array) for array in arrays])
    assert isinstance(total, backend.array_types()) and total.dtype == dtype
    np.testing.assert_array_equal(backend.to_host(total), rounded_once(arrays))


def test_float16_is_not_rounded_between_additions(put):
    ones = [np.float16(2048), np.float16(1), np.float16(1)]  # 2048 + 1 is 2048 in float16
    total = kernels.accumulate([put(np.full((2,), one)) for one in ones])
    assert backend.to_host(total).tolist() == [2050.0, 2050.0]


def test_the_result_is_fresh_and_the_inputs_keep_their_values_whatever_their_strides(put):
    base = np.arange(12.0).reshape(3, 4)
    arrays = [put(base).T, put(base).reshape(4, 3)[::-1], put(base[0])[:, None].repeat(3, axis=1)]
    before = [backend.to_host(array).copy() for array in arrays]
    for count in (1, 2, 3):
        total = kernels.accumulate(arrays[:count])
        np.testing.assert_array_equal(backend.to_host(total), sum(before[:count]))
        assert not any(memory.shares_memory(total, array) for array in arrays)
        total += 1
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(backend.to_host(array), kept)


def test_with_a_dtype_inputs_broadcast_and_mix(put):
    given = [np.float16([[1], [2]]), np.float32([[0.5, 1, 2]]), np.int64([[1, 2, 3]])]
    total = kernels.accumulate([put(a) for a in given], dtype=np.float16)
    assert total.dtype == np.float16
    np.testing.assert_array_equal(backend.to_host(total), sum(a.astype("f4") for a in given))


def test_the_sum_goes_where_it_is_asked_for(put):
    out = put(np.zeros((2, 3)))
    assert kernels.accumulate([put(np.ones((2, 3)))] * 3, out=out) is out
    np.testing.assert_array_equal(backend.to_host(out), np.full((2, 3), 3.0))


def test_what_cannot_be_accumulated_is_named():
    ones = np.ones((2, 3))
    with pytest.raises(ValueError, match="found no array"):
        kernels.accumulate([])
    with pytest.raises(ValueError, match=r"found shape \(3,\), float64 on cpu, expected shape \(2"):
        kernels.accumulate([ones, np.ones(3)])
    with pytest.raises(ValueError, match=r"found shape \(2, 3\), float32"):
        kernels.accumulate([ones, ones.astype("f4")])


def test_every_kernel_file_is_found_by_name_and_another_name_lists_them():
    assert "accumulate" in kernels.names() and str(kernels.where()) in kernels.status()
    assert "gradhook" in kernels.source("accumulate")
    with pytest.raises(FileNotFoundError, match=r"'missing' not found in .*accumulate"):
        kernels.source("missing")


def test_status_says_why_kernels_are_not_used(monkeypatch):
    nothing = backend._Cupy(None, 0, "CuPy is not installed")
    monkeypatch.setattr(backend, "_find_cupy", lambda: nothing)
    assert "not used: CuPy is not installed" in kernels.status()
    monkeypatch.setattr(kernels.sources, "where", lambda: None)
    assert kernels.names() == [] and "none found" in kernels.status()


@pytest.mark.parametrize(("registered", "name"), KERNELS_BY_NAME)
def test_a_kernel_takes_what_its_table_function_takes(registered, name):
    takes = list(inspect.signature(TABLE[name].forward).parameters.values())[1:]
    given = list(inspect.signature(registered[name]).parameters.values())
    if [p.name for p in given] != ["arrays", "numbers"]:  # the elementwise ones take any
        assert [(p.name, p.default) for p in given] == [(p.name, p.default) for p in takes]
