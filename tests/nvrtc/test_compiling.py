"""The gate itself notices an error, and memory that registers spill to."""

from __future__ import annotations

import pytest

cupy = pytest.importorskip("cupy", reason="needs CuPy's wheel")
pytest.importorskip("nvidia.cuda_nvrtc", reason="needs NVRTC's wheel (nvidia-cuda-nvrtc-cu12)")

from nvrtc.compiling import compiled, usages  # noqa: E402


def test_an_error_is_raised_with_its_log():
    with pytest.raises(cupy.cuda.compiler.CompileException, match="missing_name"):
        compiled('extern "C" __global__ void k(float* x) { x[0] = missing_name; }', "90")


def test_an_array_that_does_not_fit_registers_is_seen():
    source = """extern "C" __global__ void k(float* x, int n) {
        float many[64];
        for (int i = 0; i < 64; ++i) many[i] = x[i];
        for (int i = 0; i < n; ++i) many[(i * n) % 64] += x[i + 64];
        for (int i = 0; i < 64; ++i) x[i] = many[i];
    }"""
    (found,) = compiled(source, "80")
    assert found.kernel == "k" and found.registers > 0 and found.stack >= 256


def test_spills_are_read_from_the_log():
    log = """ptxas info : Compiling entry function 'k' for 'sm_80'
        16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
        ptxas info : Used 255 registers"""
    assert list(usages(log)) == [("k", 255, 20, 16)]
