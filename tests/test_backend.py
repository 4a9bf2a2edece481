"""Devices, array recognition and memory tests; on a machine without CuPy too."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from gradhook import backend, memory


@pytest.fixture
def no_cuda(monkeypatch):
    """A machine whose CuPy sees no device."""
    problem = "CuPy 14.2.0 sees no CUDA device: cudaErrorNoDevice"
    monkeypatch.setattr(backend, "_find_cupy", lambda: backend._Cupy(None, 0, problem))


@pytest.mark.parametrize(
    ("arguments", "text", "representation"),
    [
        (("cpu",), "cpu", "device(type='cpu')"),
        (("cuda",), "cuda", "device(type='cuda')"),
        (("cuda:1",), "cuda:1", "device(type='cuda', index=1)"),
        (("cuda", 0), "cuda:0", "device(type='cuda', index=0)"),
        ((2,), "cuda:2", "device(type='cuda', index=2)"),
    ],
)
def test_a_device_prints_compares_copies_and_pickles_like_torchs(arguments, text, representation):
    device = backend.device(*arguments)
    assert (str(device), repr(device)) == (text, representation)
    twins = [backend.device(device), copy.deepcopy(device), pickle.loads(pickle.dumps(device))]
    assert all(twin == device and hash(twin) == hash(device) for twin in twins)
    assert device != backend.device("cuda:7") and device != text
    with pytest.raises(AttributeError, match="immutable"):
        device.index = 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("gpu",), RuntimeError, "Expected one of cpu, cuda device type at start of device string"),
        (("cuda:x",), RuntimeError, "Invalid device string: 'cuda:x'"),
        (("cuda:",), RuntimeError, "Invalid device string: 'cuda:'"),
        (("cuda:0", 1), RuntimeError, "must not include an index"),
        ((None,), TypeError, "found None, expected 'cpu', 'cuda'"),
    ],
)
def test_a_wrong_device_says_what_was_found_and_expected(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        backend.device(*arguments)


def test_importing_gradhooks_backend_does_not_import_cupy():
    code = "import gradhook.backend as b, numpy, sys; b.device_of(numpy.ones(2)); b.array_types()"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'cupy' not in sys.modules"], check=True)


def test_numpy_arrays_and_scalars_are_recognised_and_others_named():
    assert backend.array_module(np.ones(2)) is backend.array_module(np.float32(1)) is np
    assert backend.device_of(np.ones(2)) == backend.device("cpu")
    assert not backend.is_cupy(np.ones(2)) and np.ndarray in backend.array_types()
    assert backend.module_of_type(np.ndarray) is np
    for ask in (lambda: backend.array_module([1.0]), lambda: backend.module_of_type(list)):
        with pytest.raises(TypeError, match=r"builtins.list, expected (a )?numpy.ndarray"):
            ask()


def test_a_number_becomes_an_array_without_dimensions():
    number = backend.scalar(2.5, np.dtype("f4"), np.ndarray)
    assert (type(number), number.dtype, number.shape) == (np.ndarray, np.float32, ())
    assert number == 2.5


def test_arrays_that_are_on_the_host_already_are_not_copied():
    array = np.ones(3)
    assert backend.to_host(array) is array and backend.to_device(array, "cpu") is array


def test_cuda_where_there_is_none_says_what_was_found_and_the_way_out(no_cuda, monkeypatch):
    assert not backend.is_available() and backend.device_count() == 0
    assert "cudaErrorNoDevice" in backend.why_not()
    monkeypatch.setenv("GRADHOOK_DEVICE", "cuda")
    for ask in (lambda: backend.to_device(np.ones(2), "cuda"), backend.default_device):
        with pytest.raises(backend.DeviceError, match=r"cudaErrorNoDevice; install CuPy .*cpu"):
            ask()


def test_the_default_device_follows_the_environment(no_cuda, monkeypatch):
    for wish in ("auto", "cpu", " CPU ", ""):
        monkeypatch.setenv("GRADHOOK_DEVICE", wish)
        assert backend.default_device() == backend.device("cpu")
    monkeypatch.setenv("GRADHOOK_DEVICE", "tpu")
    with pytest.raises(ValueError, match="found 'tpu', expected 'cpu', 'cuda' or 'auto'"):
        backend.default_device()


@pytest.mark.parametrize(
    ("loaded", "problem"),
    [
        (ModuleNotFoundError("no", name="cupy"), "CuPy is not installed"),
        (ModuleNotFoundError("no fastrlock", name="fastrlock"), "cannot be imported: no fastrlock"),
        (OSError("libcudart.so.12 is missing"), "OSError: libcudart.so.12 is missing"),
        (RuntimeError("cudaErrorInsufficientDriver"), "sees no CUDA device: cudaErrorInsufficient"),
        (0, "CuPy 14.2.0 sees no CUDA device"),
    ],
)
def test_the_reason_why_cupy_is_not_used_is_kept_in_words(loaded, problem, monkeypatch):
    def load(name):
        if isinstance(loaded, ImportError | OSError):
            raise loaded
        return types.SimpleNamespace(__version__="14.2.0", cuda=types.SimpleNamespace(runtime=fake))

    def count():
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    fake = types.SimpleNamespace(getDeviceCount=count)
    monkeypatch.setattr(backend.importlib, "import_module", load)
    assert problem in backend._find_cupy.__wrapped__().problem


def test_a_numpy_array_among_cuda_tensors_is_refused_with_both_devices_and_the_way_out():
    cpu, cuda = backend.device("cpu"), backend.device("cuda", 0)
    backend.expect_device(np.ones(3), cpu, "other")
    message = r"Expected all tensors to be on the same device.*other: found a NumPy array of shape "
    with pytest.raises(backend.DeviceError, match=message + r"\(3,\) on cpu.*\.to\('cuda:0'\)"):
        backend.expect_device(np.ones(3), cuda, "other")


def test_views_share_memory_and_copies_or_disjoint_parts_do_not():
    base = np.arange(24.0).reshape(4, 6)
    for view in (base[1:], base.T, base[::-1, ::2], base[2, 3:4], base.reshape(-1)[5:]):
        assert memory.shares_memory(base, view) and memory.shares_memory(view, base)
    for other in (base.copy(), base[:0], np.ones(3)):
        assert not memory.shares_memory(base, other)
    assert not memory.shares_memory(base[:2], base[2:])
    assert not memory.shares_memory(base[:2], base[:1:-1])


strides = st.integers(-5, 5)


@given(st.lists(st.tuples(st.integers(0, 5), strides), max_size=3), st.sampled_from(["i1", "i4"]))
def test_internal_overlap_is_exact_for_any_shape_and_strides(axes, dtype):
    dtype = np.dtype(dtype)
    room = np.zeros(128, np.int8)
    shape, steps = [n for n, _ in axes], [s for _, s in axes]
    array = np.ndarray(shape, dtype, room, offset=60, strides=steps)
    touched = np.zeros(128, int)
    for index in np.ndindex(*shape):
        offset = 60 + sum(i * s for i, s in zip(index, steps, strict=True))
        touched[offset : offset + dtype.itemsize] += 1
    assert memory.has_internal_overlap(array) == bool((touched > 1).any())


def test_expanded_arrays_and_windows_overlap_and_slices_do_not():
    base = np.arange(12.0).reshape(3, 4)
    assert memory.has_internal_overlap(np.broadcast_to(base[:1], (5, 4)))
    assert memory.has_internal_overlap(sliding_window_view(np.arange(100_000.0), 1000))
    assert not memory.has_internal_overlap(as_strided(base, (3, 2), (16, 24)))
    for array in (
        base,
        base.T,
        base[::2, 1::2],
        base[:, ::-1],
        base[:0],
        np.float64(1).reshape(()),
    ):
        assert not memory.has_internal_overlap(array)


@pytest.mark.cuda
def test_arrays_move_to_cuda_and_back_and_are_recognised_there():
    if not backend.is_available():
        pytest.skip(f"needs CUDA: {backend.why_not()}")
    host = np.arange(6.0).reshape(2, 3)
    array = backend.to_device(host, "cuda")
    assert backend.is_cupy(array) and backend.array_module(array).__name__ == "cupy"
    assert backend.device_of(array) == backend.device("cuda", 0) == backend.default_device()
    assert backend.to_device(array, "cuda:0") is array
    np.testing.assert_array_equal(backend.to_host(array), host)
    assert memory.shares_memory(array, array[1:]) and not memory.shares_memory(array, host)
    assert not memory.shares_memory(array, array.copy())
    assert not memory.has_internal_overlap(array.T)
    number = backend.scalar(2.5, np.dtype("f4"), type(array))
    assert type(number) is type(array) and number.shape == () and number.get() == 2.5
    with pytest.raises(backend.DeviceError, match="cuda:99"):
        backend.to_device(host, "cuda:99")
