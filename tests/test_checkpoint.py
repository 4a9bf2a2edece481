"""utils.checkpoint: equal gradients, one recomputation a run, the same random numbers, no rest."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref

import pytest

import gradhook
from gradhook import autograd, nn
from gradhook.autograd.graph import register_multi_grad_hook, save_on_cpu
from gradhook.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def chain(x):
    return x.sin().exp().sin()


def wrapped(fn):
    return lambda *args, **kwargs: checkpoint(fn, *args, **kwargs)


def derivative(fn):
    def of(x):
        with gradhook.enable_grad():
            return autograd.grad(fn(x).sum(), x, create_graph=True)[0]

    return of


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- values


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize(
    ("plain", "checked"),
    [
        (chain, wrapped(chain)),
        (chain, wrapped(wrapped(chain))),
        (derivative(chain), wrapped(derivative(chain))),
        (derivative(chain), derivative(wrapped(wrapped(chain)))),
        (derivative(derivative(chain)), derivative(wrapped(derivative(wrapped(chain))))),
        (derivative(derivative(chain)), wrapped(derivative(derivative(wrapped(chain))))),
    ],
)
def test_gradients_are_those_of_the_plain_call_at_every_nesting_and_order(
    plain, checked, early_stop, no_gc
):
    x, y = leaf([0.3, -0.7]), leaf([0.3, -0.7])
    with set_checkpoint_early_stop(early_stop):
        out = checked(x)
        out.sum().backward()
    plain(y).sum().backward()
    assert x.grad.tolist() == pytest.approx(y.grad.tolist())
    node = weakref.ref(out.grad_fn)
    del out
    assert node() is None


def test_keywords_containers_and_other_arguments_pass():
    a, b = leaf(2.0), leaf(3.0)

    def fn(k, d, b=None, f=None):
        return {"y": f(k * d["a"] * b.exp())}, 1, "word"

    out, one, word = checkpoint(fn, 3, {"a": a}, b=b, f=lambda x: x.sin())
    assert (one, word) == (1, "word")
    found = autograd.grad(out["y"], (a, b))
    expected = autograd.grad((3 * a * b.exp()).sin(), (a, b))
    assert [g.tolist() for g in found] == pytest.approx([g.tolist() for g in expected])


def test_random_numbers_are_drawn_again_and_the_streams_go_on():
    own = gradhook.Generator().manual_seed(5)

    def fn(x):
        return nn.functional.dropout(x * gradhook.rand(8, generator=own).exp(), 0.5).sin()

    results = []
    for run in (fn, wrapped(fn)):
        gradhook.manual_seed(1)
        own.manual_seed(5)
        x = gradhook.arange(8.0).requires_grad_()
        out = run(x)
        after = gradhook.rand(2).tolist()
        out.sum().backward()
        results.append((x.grad.tolist(), after, gradhook.rand(2).tolist(), own.get_state()["bits"]))
    assert results[0] == results[1]


def test_without_preserve_rng_state_the_streams_move_on():
    after = []
    for preserve in (True, False):
        gradhook.manual_seed(1)
        x = gradhook.ones(64).requires_grad_()
        out = checkpoint(lambda x: x.sin() * gradhook.rand(64), x, preserve_rng_state=preserve)
        out.sum().backward()
        after.append(gradhook.rand(2).tolist())
    assert after[0] != after[1]


def test_parts_of_a_sequential():
    model = nn.Sequential(*[m for _ in range(5) for m in (nn.Linear(3, 3), nn.Tanh())])
    x = gradhook.ones(2, 3)
    expected = model(x)
    for segments in (1, 2, 3, 10):
        found = checkpoint_sequential(model, segments, x)
        found.sum().backward()
        assert found.tolist() == expected.tolist()
    grads = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    for _ in range(4):
        model(x).sum().backward()
    assert grads == [p.grad.tolist() for p in model.parameters()]
    with pytest.raises(ValueError, match="segments: found 11, expected 1 to 10"):
        checkpoint_sequential(model, 11, x)
    with pytest.raises(ValueError, match=r"^Unexpected keyword arguments: nothing"):
        checkpoint_sequential(model, 2, x, nothing=1)


def test_with_save_on_cpu_inside_and_outside():
    def inside(x):
        with save_on_cpu():
            return chain(x) * x

    x, y = leaf([0.3]), leaf([0.3])
    with save_on_cpu():
        out = checkpoint(inside, x * 2) * x
    out.backward()
    (chain(y * 2) * (y * 2) * y).backward()
    assert x.grad.tolist() == pytest.approx(y.grad.tolist())


# ---- what runs, and how often


def test_one_recomputation_a_run_and_one_an_access_outside():
    x, n = leaf([0.3]), [0]

    def fn(x):
        n[0] += 1
        return chain(x)

    out = checkpoint(fn, x)
    assert n == [1]
    out.backward(retain_graph=True)
    assert n == [2]
    out.grad_fn._saved_x  # noqa: B018
    out.grad_fn._saved_x  # noqa: B018
    assert n == [4]
    out.backward()
    assert n == [5]
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already"):
        out.grad_fn._saved_x  # noqa: B018


def test_early_stop_ends_with_the_last_saved_tensor():
    x, log = leaf([0.3]), []

    def fn(x):
        y = x.sin()
        log.append("here")
        return y * 2

    for expected, options in (
        (["here"], {}),
        (["here"] * 2, {"early_stop": False}),
    ):
        log.clear()
        checkpoint(fn, x, **options).backward()
        assert log == expected
    log.clear()
    with set_checkpoint_early_stop(False):
        out = checkpoint(fn, x)
    out.backward()
    assert log == ["here"] * 2


def test_early_stop_is_not_caught_by_the_function():
    x, log = leaf([0.3]), []

    def fn(x):
        try:
            return x.sin()
        except Exception:
            log.append("caught")
            raise

    checkpoint(fn, x).backward()
    assert log == []


def test_hooks_fire_once_a_run():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    x, log = gradhook.ones(1, 2).requires_grad_(), []
    model.register_full_backward_hook(lambda m, gi, go: log.append("module"))
    model[0].weight.register_hook(lambda g: log.append("weight"))
    model[0].bias.register_post_accumulate_grad_hook(lambda p: log.append("bias"))
    register_multi_grad_hook((x, model[0].weight), lambda grads: log.append("both"))

    def fn(x):
        y = model(x)
        y.register_hook(lambda g: log.append("inner"))
        y.grad_fn.register_hook(lambda gi, go: log.append("node"))
        return y.sin()

    checkpoint(fn, x).sum().backward()
    assert sorted(log) == ["bias", "both", "inner", "module", "node", "weight"]


def test_without_recording_it_is_the_plain_call():
    x, n = leaf([0.3]), [0]

    def fn(x):
        n[0] += 1
        return x.sin()

    with gradhook.no_grad():
        assert not checkpoint(fn, x).requires_grad
    assert not checkpoint(fn, x.detach()).requires_grad
    assert n == [2]


def test_contexts_surround_both_calls():
    x, log = leaf([0.3]), []

    @contextlib.contextmanager
    def note(name):
        log.append(f"+{name}")
        yield
        log.append(f"-{name}")

    out = checkpoint(
        chain, x, context_fn=lambda: (note("forward"), note("again")), early_stop=False
    )
    assert log == ["+forward", "-forward"]
    out.backward()
    assert log == ["+forward", "-forward", "+again", "-again"]


def test_threads_recompute_for_themselves():
    x = leaf([0.3])
    out = checkpoint(chain, x).sum()
    expected = autograd.grad(chain(x).sum(), x)[0].tolist()
    found = []

    def work():
        for _ in range(20):
            found.append(autograd.grad(out, x, retain_graph=True)[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 60 and all(g == pytest.approx(expected) for g in found)
