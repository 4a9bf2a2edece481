"""How many kernels a training step launches, against PyTorch's number (bench/launches.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import cpudevice
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
if not (ROOT / "bench" / "launches.py").is_file():
    pytest.skip("bench/ is not in this copy of the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import gradhook  # noqa: E402
from bench import launches  # noqa: E402
from bench.launch_steps import STEPS  # noqa: E402
from gradhook.nn import functional as F  # noqa: E402

# What PyTorch 2.13 runs, by its profiler: tests/oracle/test_launches_torch.py counts them.
PYTORCH = dict(zip(STEPS, (27, 54), strict=True))

pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module")
def counted():
    if not cpudevice.started():
        pytest.skip("launches are counted on the CPU test device")
    return launches.gradhook_counts()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_launches_at_most_three_quarters_of_pytorch_s_kernels(counted, name):
    found = counted[name]
    assert sum(found.values()) <= launches.ALLOWED * PYTORCH[name], found


@pytest.mark.parametrize("name", STEPS)
def test_the_optimizer_s_step_is_one_launch(counted, name):
    assert sum(n for kernel, n in counted[name].items() if "adam" in kernel) == 1


def test_cross_entropy_is_one_launch_each_way(counted):
    for found in counted.values():
        names = {kernel: n for kernel, n in found.items() if "entropy" in kernel}
        assert names == {
            "gradhook_cross_entropy_float32": 1,
            "gradhook_cross_entropy_input_float32": 1,
        }


def launched(run, *leaves):
    """All that CuPy launches in run() and in its backward, the second time."""
    for _ in range(2):
        cpudevice.reset()
        out = run()
        forward = cpudevice.counters()["launches"]
        g = gradhook.ones_like(out)
        cpudevice.reset()
        gradhook.autograd.grad(out, leaves, g)
    return forward, cpudevice.counters()["launches"]


def uniform(*shape):
    return gradhook.rand(*shape, device="cuda", requires_grad=True)


# Launches forward and backward. One kernel gives all gradients; those of weight and bias are summed
# where several samples have a channel, and copied to their shape, of a group norm x's, too.
NORMS = {
    "batch_norm": (1, 1 + 2, lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "group_norm": (1, 1 + 2 + 3, lambda x, w, b: F.group_norm(x, 3, w, b)),
    "instance_norm": (1, 1 + 2 + 2, lambda x, w, b: F.instance_norm(x, None, None, w, b)),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_normalisation_is_one_launch_forward_and_one_for_all_gradients(counted, name):
    forward, backward, norm = NORMS[name]
    x, w, b = uniform(4, 6, 5, 5), uniform(6), uniform(6)
    assert launched(lambda: norm(x, w, b), x, w, b) == (forward, backward)


def test_running_statistics_are_one_launch_and_no_transfer(counted):
    x, mean, var = uniform(4, 6, 5), gradhook.zeros(6), gradhook.ones(6)
    with gradhook.profiler.transfers() as moved:
        forward, _ = launched(lambda: F.batch_norm(x, mean, var, training=True), x)
    assert forward == 2 and moved.count == 0


REDUCED = {
    "var": lambda x: x.var(),
    "std": lambda x: x.std(0),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "cummax": lambda x: x.cummax(1).values,
    "gather": lambda x: x.gather(1, gradhook.zeros_like(x, dtype=gradhook.int64)),
}


@pytest.mark.parametrize("name", REDUCED)
def test_statistics_scans_and_gather_are_one_launch_each_way(counted, name):
    x = uniform(20, 30)
    assert launched(lambda: REDUCED[name](x), x) == (1, 1)


def test_the_gradient_of_an_embedding_is_one_launch(counted):
    table, rows = uniform(30, 8), gradhook.zeros(4, 5, dtype=gradhook.int64, device="cuda")
    found = launched(lambda: F.embedding(rows, table, padding_idx=0), table)
    assert found == (1, 1)


# One launch each, and one for the copy of each index that the caller may write to, and of a
# gradient that is the caller's own.
PICKED = {
    "index_select": (1, 1, lambda x, y, i: x.index_select(1, i)),
    "x[i]": (1 + 1, 1, lambda x, y, i: x[i]),
    "x[:, i]": (1 + 1, 1, lambda x, y, i: x[:, i]),
    "x[i, i]": (2 + 1, 1, lambda x, y, i: x[i, i]),
    "index_add": (1, 1 + 1, lambda x, y, i: x.index_add(0, i, y)),
    "index_put": (1 + 1, 2 + 1, lambda x, y, i: x.index_put((i,), y)),
    "index_put of sums": (1 + 1, 1 + 1, lambda x, y, i: x.index_put((i,), y, accumulate=True)),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_index_arrays_pick_and_sums_there_are_one_launch(counted, name):
    forward, backward, pick = PICKED[name]
    x, y, i = uniform(9, 7), uniform(4, 7), gradhook.tensor([3, 1, 3, 0], device="cuda")
    leaves = (x, y) if name.startswith("index_") and name != "index_select" else (x,)
    assert launched(lambda: pick(x, y, i), *leaves) == (forward, backward)


@pytest.mark.parametrize("equation", ["bqhd,bkhd->bhqk", "bhqd,bhkd->bhqk", "bqd,bdk->bkq"])
def test_an_einsum_of_one_label_each_is_one_launch_without_copies(counted, equation):
    sizes = {"b": 2, "q": 5, "k": 6, "h": 3, "d": 4}
    a, b = (uniform(*[sizes[c] for c in term]) for term in equation.split("->")[0].split(","))
    cpudevice.reset()
    gradhook.einsum(equation, a, b)
    found = cpudevice.counters()
    assert (found["launches"], found["d2d"]) == (1, 0)
