"""Declared hooks equal the Python hooks written with tensor operations, wherever they run."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradhook
from gradhook import backend, nn, profiler
from gradhook.device_hooks import (
    EMA,
    AbsMax,
    ClipNorm,
    ClipValue,
    NanToNum,
    Scale,
    Statistics,
    User,
)

X = np.random.default_rng(5).standard_normal((4, 300)).astype("f4")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    if request.param == "cuda" and not backend.is_available():
        pytest.skip(f"needs CUDA: {backend.why_not()}")
    return request.param


@pytest.fixture
def on_cuda():
    if not backend.is_available():
        pytest.skip(f"needs CUDA: {backend.why_not()}")


def put(array, device, **options):
    return gradhook.tensor(array, device=device, **options)


def gradient_after(hooks, device, count=3, create_graph=False, transposed=False, values=X):
    """The gradient of x where y = 2 * x has the hooks and `count` gradients arrive at y."""
    x = put(values, device, requires_grad=True)
    y = x * 2
    for hook in hooks:
        y.register_hook(hook)
    weights = put(values.T if transposed else values, device)
    parts = [(y.t() if transposed else y) * float(k + 1) * weights for k in range(count)]
    total = parts[0].sum()
    for part in parts[1:]:
        total = total + part.sum()
    total.backward(create_graph=create_graph)
    return x.grad.detach().cpu().numpy()


def clipped_norm(limit):
    return lambda g: g * (limit / ((g * g).sum().sqrt() + 1e-6)).clamp(max=1.0)


CHAINS = {
    "scale": ([Scale(0.5)], [lambda g: g * 0.5]),
    "clip": ([ClipValue(-1, 2)], [lambda g: g.clamp(-1, 2)]),
    "norm": ([ClipNorm(3.0)], [clipped_norm(3.0)]),
    "norm in a chain": (
        [Scale(0.1), ClipNorm(2.0), ClipValue(0.1)],
        [lambda g: g * 0.1, clipped_norm(2.0), lambda g: g.clamp(-0.1, 0.1)],
    ),
    "a Python hook between": (
        [Scale(0.5), lambda g: g + 1, ClipValue(1.0)],
        [lambda g: g * 0.5, lambda g: g + 1, lambda g: g.clamp(-1, 1)],
    ),
    "user": (
        [User("g < {F}(0) ? {F}(0) : g * {0}", lambda xp, g: xp.where(g < 0, g * 0, g * 3), [3])],
        [lambda g: gradhook.where(g < 0, g * 0, g * 3)],
    ),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_equals_its_python_hooks(name, count, transposed, create_graph, device):
    declared, plain = CHAINS[name]
    options = {"count": count, "create_graph": create_graph, "transposed": transposed}
    np.testing.assert_allclose(
        gradient_after(declared, device, **options),
        gradient_after(plain, device, **options),
        rtol=3e-6,
        atol=1e-6,
    )


def test_nan_and_infinities_are_replaced(device):
    values = np.array([np.nan, np.inf, -np.inf, 2.0], "f4")
    found = gradient_after([NanToNum(7.0, posinf=8.0, neginf=-9.0)], device, 1, values=values)
    np.testing.assert_array_equal(found, [14, 16, -18, 4])
    largest = np.finfo("f4").max
    with np.errstate(over="ignore"):
        found = gradient_after([NanToNum(), Scale(0.5)], device, 1, values=values)
    np.testing.assert_allclose(found, [0, largest, -largest, 2])


def test_statistics_are_those_of_the_gradient_where_they_stand(device):
    statistics, later = Statistics(histogram=True), AbsMax()
    values = np.array([0, 0.75, -3, np.nan, np.inf, 0, 5, 1e-20], "f4")
    gradient_after([statistics, Scale(2.0), ClipValue(8.0), later], device, 1, values=values)
    found = statistics.stats()
    histogram = found.pop("histogram")
    assert {k: v for k, v in found.items() if k not in ("mean", "sum", "sum_squares")} == {
        "gradients": 1, "count": 8, "min": -3, "max": 5, "zeros": 2, "nans": 1, "infs": 1
    }  # fmt: skip
    assert found["sum"] == pytest.approx(2.75) and found["mean"] == pytest.approx(2.75 / 6)
    assert found["sum_squares"] == pytest.approx(0.5625 + 9 + 25)
    assert {k: n for k, n in enumerate(histogram) if n} == {39: 1, 41: 1, 42: 1, 0: 1}
    assert later.stats() == {"gradients": 1, "absmax": 8.0}


def test_statistics_go_on_until_they_are_reset(device):
    statistics = Statistics()
    for factor in (1, 100):
        gradient_after([Scale(factor), statistics], device, 1)
    found = statistics.stats()
    assert found["gradients"] == 2 and found["count"] == 2 * X.size
    assert found["max"] == pytest.approx(float(X.max()) * 100, rel=1e-6)
    assert found["sum_squares"] == pytest.approx((X.astype("f8") ** 2).sum() * 10001, rel=1e-6)
    statistics.reset()
    assert statistics.stats()["gradients"] == 0 and math.isnan(statistics.stats()["max"])


def test_an_ema_is_corrected_for_its_start(device):
    ema = EMA(0.5)
    for factor in (1.0, 3.0):
        gradient_after([Scale(factor), ema], device, 1)
    mean, square = X.astype("f8").mean(), (X.astype("f8") ** 2).mean()
    found = ema.stats()
    assert found["gradients"] == 2
    assert found["mean"] == pytest.approx((0.25 * mean + 0.5 * 3 * mean) / 0.75, rel=1e-4)
    assert found["mean_square"] == pytest.approx((0.25 + 0.5 * 9) * square / 0.75, rel=1e-5)


def test_clip_norm_tells_the_norm_of_the_last_gradient(device):
    clip = ClipNorm(1.0)
    gradient_after([clip], device, 1)
    assert clip.stats()["norm"] == pytest.approx(float(np.linalg.norm(X.astype("f8"))), rel=1e-6)


def module_gradients(pre, full, device, count=3):
    rng = np.random.default_rng(0)
    module = nn.Linear(300, 8).to(device)
    with gradhook.no_grad():
        module.weight.copy_(put(rng.standard_normal((8, 300)).astype("f4"), device))
    for hook in pre:
        module.register_full_backward_pre_hook(hook)
    for hook in full:
        module.register_full_backward_hook(hook)
    x = put(X, device, requires_grad=True)
    y = module(x * 1.5)
    total = y.sum()
    for k in range(count - 1):
        total = total + (y * float(k + 2)).sum()
    total.backward()
    return x.grad.cpu().numpy(), module.weight.grad.cpu().numpy()


@pytest.mark.parametrize("count", [1, 3])
def test_module_hooks_take_declared_hooks(device, count):
    statistics = Statistics()
    found = module_gradients([Scale(0.5), ClipValue(2.0), statistics], [Scale(3.0)], device, count)
    expected = module_gradients(
        [lambda m, g: (g[0] * 0.5,), lambda m, g: (g[0].clamp(-2, 2),)],
        [lambda m, gi, go: (gi[0] * 3.0,)],
        device,
        count,
    )
    for one, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, reference, rtol=1e-5)
    assert statistics.stats()["max"] == min(2, 0.5 * sum(range(count + 1)))


def test_python_hooks_of_a_module_stand_in_their_order_between_declared_ones(device):
    seen = []

    def look(module, grad_output):
        seen.append(float(grad_output[0][0, 0].cpu()))
        return (grad_output[0] * 10,)

    statistics = Statistics()
    module_gradients([Scale(0.5), look, Scale(2.0), statistics], [], device, 1)
    assert seen == [0.5] and statistics.stats()["max"] == 10.0


def test_a_declared_hook_says_what_it_cannot_take(device):
    x = put(np.ones(3, "c8"), device, requires_grad=True)
    y = x * 1
    y.register_hook(Statistics())
    with pytest.raises(TypeError, match="Statistics: found a gradient of complex64"):
        y.sum().abs().backward()
    with pytest.raises(ValueError, match=r"low 2 above high 1\.0"):
        ClipValue(2, 1)
    with pytest.raises(ValueError, match="expected 0 <= decay < 1"):
        EMA(1.0)


@pytest.mark.cuda
@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("where", ["tensor", "module"])
def test_declared_hooks_at_a_slot_add_no_launch_to_the_accumulate(where):
    hooks = [Scale(0.5), ClipValue(1.0), Statistics(), AbsMax()]
    with profiler.launches() as launched:
        if where == "tensor":
            gradient_after(hooks, "cuda")
        else:
            module_gradients(hooks, [], "cuda")
    names = [e.name for e in launched.events if "accumulate_3" in e.name or "gradient" in e.name]
    assert [n.removesuffix("_any") for n in names] == ["gradhook_gradient_3_float32"]


@pytest.mark.cuda
def test_only_stats_reads_from_the_device(device_counters):
    statistics = Statistics()
    x = put(X, "cuda", requires_grad=True)
    y = x * 2
    y.register_hook(statistics)
    loss = y.sum() + y.sum()
    device_counters(reset=True)
    loss.backward()
    counted = device_counters()
    assert not any(counted[k] for k in ("d2h", "syncs"))
    with profiler.transfers() as moved:
        statistics.stats()
    assert moved.count == 1


@pytest.mark.cuda
@pytest.mark.usefixtures("on_cuda")
def test_fusion_splits_at_a_python_hook():
    with profiler.launches() as launched:
        gradient_after([Scale(0.5), AbsMax(), lambda g: None, Scale(2.0), AbsMax()], "cuda")
    names = [e.name for e in launched.events if "gradient" in e.name]
    assert names == ["gradhook_gradient_3_float32", "gradhook_gradient_1_float32"]
