"""Every kernel compiles for sm_80, sm_90 and sm_120 and spills no register.

Needs CuPy and NVRTC's wheel, no driver. `python -m tests.nvrtc` prints the table of registers.
"""

from __future__ import annotations

import pytest

from gradhook.kernels import catalogue

pytest.importorskip("cupy", reason="needs CuPy's wheel")
pytest.importorskip("nvidia.cuda_nvrtc", reason="needs NVRTC's wheel (nvidia-cuda-nvrtc-cu12)")

from nvrtc.compiling import ARCHITECTURES, compiled, elementwise, together

pytestmark = [
    pytest.mark.parametrize("architecture", ARCHITECTURES),
    pytest.mark.parametrize("dtype", catalogue.DTYPES),
]


def expect_no_spill(found, count):
    assert len(found) == count
    spilled = [u for u in found if u.spills or u.stack]
    assert not spilled, f"registers spill to memory, or arguments are copied there: {spilled}"


def test_the_kernels_of_contiguous_arrays_compile_without_a_spill(dtype, architecture):
    kernels = list(catalogue.kernels(dtype))
    expect_no_spill(compiled(together(kernels), architecture), len(kernels))


def test_the_kernels_of_device_hooks_compile_without_a_spill(dtype, architecture):
    for kernel in catalogue.chains(dtype):
        expect_no_spill(compiled(kernel.text(), architecture), 1)


def test_the_kernels_that_cupy_generates_compile_without_a_spill(dtype, architecture):
    for kernel in catalogue.general(dtype):
        expect_no_spill(compiled(elementwise(kernel, dtype), architecture), 1)
