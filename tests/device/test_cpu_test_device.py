"""The CPU test device itself: it counts, shows missing waits and barriers, never hides a gap."""

from __future__ import annotations

import os

import cpudevice
import numpy as np
import pytest

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def cupy(device_counters):
    """CuPy, and a skip where there is no CPU test device."""
    import cupy

    return cupy


def test_it_counts_launches_copies_their_bytes_and_waits(cupy, device_counters):
    x = cupy.asarray(np.arange(6.0))
    y = x * 2
    before = device_counters(reset=True)
    assert (before["h2d"], before["bytes_h2d"], before["launches"]) == (1, 48, 1)
    assert before["d2h"] == before["syncs"] == 0
    assert y.get().tolist() == [0, 2, 4, 6, 8, 10]
    after = device_counters()
    assert (after["d2h"], after["bytes_d2h"], after["syncs"]) == (1, 48, 1)


def test_in_deferred_mode_a_missing_wait_shows(cupy):
    x = cupy.ones(4)
    cupy.cuda.Device().synchronize()
    with cpudevice.deferred():
        one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        with one:
            y = x * 3
        with other:
            unordered = y.get(stream=other)
        assert np.isnan(unordered).all()
        other.wait_event(one.record())
        assert y.get(stream=other).tolist() == [3, 3, 3, 3]


SUMS = r"""
extern "C" __global__ void reversed(const float* x, float* y) {
  __shared__ float kept[64];
  kept[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = kept[63 - threadIdx.x];
}
extern "C" __global__ void warp_sum(const float* x, float* y) {
  float v = x[threadIdx.x];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = v;
}
extern "C" __global__ void stuck(float* y) {
  if (threadIdx.x < 7) __syncthreads(); else if (threadIdx.x < 40) __syncwarp();
  y[threadIdx.x] = 1;
}
"""


def test_barriers_and_warp_exchanges_run(cupy):
    x = cupy.arange(64, dtype="f4")
    y = cupy.zeros(64, "f4")
    module = cupy.RawModule(code=SUMS)
    module.get_function("reversed")((1,), (64,), (x, y))
    assert y.tolist() == x.tolist()[::-1]
    module.get_function("warp_sum")((1,), (64,), (x, y))
    assert y[:2].tolist() == [sum(range(32)), sum(range(32, 64))]


def test_a_barrier_that_some_threads_miss_is_an_error(cupy, capfd):
    y = cupy.zeros(64, "f4")
    stuck = cupy.RawModule(code=SUMS).get_function("stuck")
    with cpudevice.deferred(False), pytest.raises(cupy.cuda.driver.CUDADriverError):
        stuck((1,), (64,), (y,))
    assert "__syncthreads" in capfd.readouterr().err
    cpudevice.reset()


@pytest.mark.skipif(
    "-fsanitize=address" not in os.environ.get("CPUDEVICE_CXXFLAGS", ""),
    reason="`make sanitizer` compiles kernels with the address sanitizer",
)
def test_the_address_sanitizer_ends_a_kernel_that_writes_past_its_array(cupy, capfd):
    text = 'extern "C" __global__ void at(float* x, int i) { x[i] = 1; }'
    write = cupy.RawModule(code=text).get_function("at")
    x = cupy.zeros(16, "f4")
    for place, seen in ((15, False), (16, True)):
        child = os.fork()
        if not child:
            write((1,), (1,), (x, place))
            os._exit(0)
        assert (os.waitpid(child, 0)[1] != 0) == seen
    assert "heap-buffer-overflow" in capfd.readouterr().err


def test_what_it_lacks_is_named_and_an_error(cupy):
    with pytest.raises(NotImplementedError, match=r"no cupy\.random.Generator\.gamma"):
        cupy.random.default_rng(1).gamma(3.0)
    assert cpudevice.missing() == ["cupy.random.Generator.gamma"]
    cpudevice.reset()  # the plugin fails the test otherwise, though the error was caught


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "?"])
def test_sorting_is_numpys(cupy, dtype):
    host = (np.random.default_rng(0).integers(0, 5, (3, 7)) - 2).astype(dtype)
    x = cupy.asarray(host)
    assert cupy.sort(x, axis=0).tolist() == np.sort(host, axis=0).tolist()
    found = cupy.argsort(x, axis=1, kind="stable")
    assert found.tolist() == np.argsort(host, axis=1, kind="stable").tolist()
    assert cupy.unique(x).tolist() == np.unique(host).tolist()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_products_of_matrices_are_numpys(cupy, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5))
    if dtype.startswith("c"):
        a, b = a + 1j * a[::-1], b - 2j * b[::-1]
    a, b = a.astype(dtype), b.astype(dtype)
    for x, y in ((a, b), (a[0], b[0]), (a[0].conj(), b[0]), (a[0], b[0, :, 0])):
        found = cupy.asarray(x) @ cupy.asarray(y)
        np.testing.assert_allclose(found.get(), x @ y, rtol=1e-5)


@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        ("linalg", "inv", {}),
        ("linalg", "svd", {"full_matrices": False}),
        ("linalg", "eigh", {}),
        ("linalg", "slogdet", {}),
        ("fft", "rfft", {"n": 5}),
        ("fft", "ifftn", {"axes": (0, 2), "norm": "ortho"}),
    ],
)
def test_linalg_and_fft_are_numpy_s_in_the_order_of_the_stream(cupy, module, name, options):
    matrices = np.random.default_rng(0).standard_normal((2, 3, 3))
    matrices += matrices.swapaxes(1, 2)
    with cpudevice.deferred():
        on_device = cupy.asarray(matrices - 1) + 1  # not computed yet
        found = getattr(getattr(cupy, module), name)(on_device, **options)
        found = [cupy.asnumpy(f) for f in (found if isinstance(found, tuple) else (found,))]
    expected = getattr(getattr(np, module), name)(matrices, **options)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(abs(one), abs(reference), rtol=1e-9, atol=1e-12)


def test_a_singular_matrix_gives_nan_where_numpy_raises(cupy):
    assert np.isnan(cupy.asnumpy(cupy.linalg.inv(cupy.zeros((2, 2))))).all()
