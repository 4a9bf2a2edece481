"""Backward hooks of modules with options: with_kwargs, when=."""

from __future__ import annotations

import copy
import threading

import pytest

import gradhook
from gradhook import nn
from gradhook.nn.modules import module as everywhere

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


class Lambda(nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def value(t):
    return None if t is None else t.tolist()


# ---- with_kwargs


@pytest.mark.parametrize("register", ["local", "global"])
def test_gradients_of_keyword_arguments_are_shown_by_name(register):
    module, log = Lambda(lambda x, k, *, scale, extra=None: x * k * scale["a"]), []

    def hook(m, grad_args, grad_kwargs, grad_output):
        log.append((
            tuple(map(value, grad_args)),
            {n: {"a": value(g["a"])} if isinstance(g, dict) else value(g)
             for n, g in grad_kwargs.items()},
            tuple(map(value, grad_output)),
        ))  # fmt: skip

    where = everywhere.register_module_full_backward_hook
    handle = (
        where(hook, with_kwargs=True)
        if register == "global"
        else module.register_full_backward_hook(hook, with_kwargs=True)
    )
    with handle:
        x, k, s = leaf(2.0), leaf(3.0), leaf(5.0)
        module(x, 1.0 * k, scale={"a": s}, extra="text").backward()
    assert log == [((15.0, 10.0), {"scale": {"a": 6.0}, "extra": None}, (1.0,))]
    assert (x.grad.item(), k.grad.item(), s.grad.item()) == (15.0, 10.0, 6.0)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda a, k: (a[0] * 10,), (30.0, 2.0)),
        (lambda a, k: ((a[0] * 10,), {"k": k["k"] * 100}), (30.0, 200.0)),
        (lambda a, k: (None, {"k": k["k"] * 100}), (3.0, 200.0)),
        (lambda a, k: (a, {}), (3.0, 2.0)),
        (lambda a, k: ((None,), {"k": None}), (None, None)),
    ],
)
def test_a_hook_replaces_gradients_of_arguments_and_keywords_and_the_next_sees_them(
    result, expected
):
    module, log = Lambda(lambda x, *, k: x * k), []
    module.register_full_backward_hook(lambda m, a, k, go: result(a, k), with_kwargs=True)
    module.register_full_backward_hook(
        lambda m, a, k, go: log.append((value(a[0]), value(k["k"]))), with_kwargs=True
    )
    x, k = leaf(2.0), leaf(3.0)
    module(x, k=k).backward()
    assert log == [expected] and (value(x.grad), value(k.grad)) == expected


def test_a_call_by_keywords_only_has_an_input_that_requires_grad():
    module, log = Lambda(lambda *, x: x * 3), []
    module.register_full_backward_hook(
        lambda m, a, k, go: log.append((a, value(k["x"]))) or ((), {"x": k["x"] * 2}),
        with_kwargs=True,
    )
    x = leaf(2.0)
    module(x=x).backward()
    assert log == [((), 3.0)] and x.grad.item() == 6.0


def test_hooks_with_and_without_kwargs_mix_in_order():
    module, log = Lambda(lambda x, *, k: x * k), []
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    module.register_full_backward_hook(
        lambda m, a, k, go: ((a[0] + 1,), {"k": k["k"] * 7}), with_kwargs=True
    )
    module.register_full_backward_hook(lambda m, gi, go: log.append(value(gi[0])))
    x, k = leaf(2.0), leaf(3.0)
    module(x, k=k).backward()
    assert log == [7.0] and x.grad.item() == 7.0 and k.grad.item() == 14.0


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"q": 1}, "returned a gradient for 'q', expected keyword arguments of the call: ['k']"),
        ({"k": leaf([1.0])}, "grad_kwargs['k'] of <Lambda>: expected (), got (1,)"),
    ],
)
def test_a_wrong_gradient_of_a_keyword_names_hook_and_keyword(named, text):
    module = Lambda(lambda x, *, k: x * k)

    def clip(m, a, k, go):
        return a, named

    module.register_full_backward_hook(clip, with_kwargs=True)
    with pytest.raises(RuntimeError) as error:
        module(leaf(2.0), k=leaf(3.0)).backward()
    assert text in str(error.value) and "clip" in str(error.value)


def test_a_global_forward_pre_hook_with_kwargs_sees_and_replaces_both():
    with everywhere.register_module_forward_pre_hook(
        lambda m, args, kwargs: ((args[0] + 1,), {"k": kwargs["k"] * 2}), with_kwargs=True
    ):
        assert Lambda(lambda x, *, k: x * k)(leaf(1.0), k=leaf(3.0)).item() == 12.0
    assert Lambda(lambda x, *, k: x * k)(leaf(1.0), k=leaf(3.0)).item() == 3.0


# ---- when


def test_when_outputs_fires_with_the_output_gradients_before_anything_inside():
    log = []
    inner = nn.Linear(2, 2, bias=False).double()
    inner.weight.register_hook(lambda g: log.append("weight"))
    module = Lambda(inner, inner=inner)
    module.register_full_backward_hook(lambda m, gi, go: log.append("auto"))
    module.register_full_backward_hook(
        lambda m, gi, go: log.append(("outputs", gi, go[0].shape)), when="outputs"
    )
    module.register_full_backward_pre_hook(lambda m, go: log.append("pre"))
    module(leaf([[1.0, 2.0]])).sum().backward()
    assert log == ["pre", ("outputs", (None,), (1, 2)), "weight", "auto"]


def test_when_complete_fires_after_every_node_of_the_call_with_final_parameter_gradients():
    log = []
    first, second = (nn.Linear(2, 2, bias=False).double() for _ in range(2))
    module = Lambda(lambda x: second(first(x).relu()), first=first, second=second)
    module.register_full_backward_hook(
        lambda m, gi, go: log.append(("auto", first.weight.grad is not None))
    )
    module.register_full_backward_hook(
        lambda m, gi, go: log.append(
            ("complete", [p.grad is not None for p in m.parameters()], value(gi[0]), value(go[0]))
        ),
        when="complete",
    )
    x = leaf([[1.0, 2.0]])
    module(x * 1).sum().backward()
    kinds = [entry[0] for entry in log]
    assert kinds == ["auto", "complete"]
    assert log[1][1:] == ([True, True], value(x.grad), [[1.0, 1.0]])


def test_when_complete_works_without_an_input_that_requires_grad():
    log, module = [], nn.Linear(2, 1).double()
    module.register_full_backward_hook(
        lambda m, gi, go: log.append((gi, m.weight.grad.tolist())), when="complete"
    )
    module(gradhook.tensor([[1.0, 2.0]], dtype=F64)).sum().backward()
    assert log == [((None,), [[1.0, 2.0]])]


def test_when_complete_waits_for_a_node_that_does_not_lead_to_the_output():
    log = []

    class Penalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(gradhook.tensor([2.0], dtype=F64))

        def forward(self, x):
            self.penalty = self.w**2
            return x * 3

    module = Penalised()
    module.register_full_backward_hook(
        lambda m, gi, go: log.append(value(m.w.grad)), when="complete"
    )
    y = module(leaf([1.0]))
    late = y * 1  # made after the call, so it runs before the penalty
    (late + module.penalty).sum().backward()
    assert log == [[4.0]]


def test_when_complete_does_not_wait_for_what_another_thread_made_meanwhile():
    log, inside, made = [], threading.Event(), threading.Event()
    other = {}

    class Slow(nn.Module):
        def forward(self, x):
            y = x * 2
            inside.set()
            made.wait()
            return y * 3

    def work():
        inside.wait()
        other["y"] = leaf([1.0]) * 5  # its number lies within the call's
        made.set()

    module, x = Slow(), leaf([1.0])
    module.register_full_backward_hook(lambda m, gi, go: log.append("complete"), when="complete")
    thread = threading.Thread(target=work)
    thread.start()
    y = module(x * 1)
    thread.join()
    node = other["y"].grad_fn
    assert y.grad_fn.completing.start < node.seq < y.grad_fn.seq
    assert node.seq not in y.grad_fn.completing.region
    (y + other["y"]).sum().backward()
    assert log == ["complete"]


def test_nested_and_repeated_calls_complete_each_inner_before_outer_once_a_pass():
    log = []
    inner = nn.Linear(1, 1, bias=False).double()
    outer = Lambda(lambda x: inner(inner(x)), inner=inner)
    for name, module in (("outer", outer), ("inner", inner)):
        module.register_full_backward_hook(
            lambda m, gi, go, name=name: log.append(name), when="complete"
        )
    y = outer(leaf([[1.0]]) * 1)
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert log == ["inner", "inner", "outer"] * 2


def test_a_pass_that_does_not_come_through_the_outputs_completes_nothing():
    log, module = [], nn.Linear(2, 2).double()
    module.register_full_backward_hook(lambda m, gi, go: log.append(1), when="complete")
    x = leaf([[1.0, 2.0]])
    (gw,) = gradhook.autograd.grad(module(x).pow(2).sum(), module.weight, create_graph=True)
    assert log == [1]
    gw.sum().backward()
    assert len(log) == 2  # x**2 leads through the outputs again
    log.clear()
    other = nn.Linear(2, 2).double()
    module(x)
    other(x).sum().backward()
    assert log == []


@pytest.mark.parametrize("when", ["outputs", "complete"])
def test_a_hook_that_cannot_replace_a_gradient_must_return_none(when):
    module = nn.Linear(2, 2).double()
    module.register_full_backward_hook(lambda m, gi, go: gi, when=when)
    with pytest.raises(RuntimeError, match=f"with when='{when}' it cannot replace a gradient"):
        module(leaf([[1.0, 2.0]])).sum().backward()


def test_an_unknown_moment_is_refused():
    with pytest.raises(ValueError, match="found 'later', expected 'auto', 'outputs' or 'complete'"):
        nn.Linear(1, 1).register_full_backward_hook(print, when="later")


def test_the_options_go_along_with_a_copy():
    log, module = [], nn.Linear(2, 2).double()
    module.register_full_backward_hook(lambda m, gi, go: log.append(m), when="complete")
    module.register_params_ready_hook(lambda m, params: log.append((m, len(params))))
    twin = copy.deepcopy(module)
    twin(leaf([[1.0, 2.0]])).sum().backward()
    assert [type(entry) for entry in log] == [nn.Linear, tuple]
    assert log[0] is twin and log[1][0] is twin and log[1][1] == 2


# ---- with what else is registered


@pytest.mark.parametrize("before", [False, True])
def test_a_forward_pre_hook_may_register_a_hook_with_options_for_the_call_it_precedes(before):
    module, log = Lambda(lambda x, *, k: x * k), []

    def register(m, args):
        m.register_full_backward_hook(
            lambda m, a, k, go: log.append(value(k["k"])), with_kwargs=True
        )

    if before:
        module.register_full_backward_hook(lambda m, gi, go: log.append("plain"))
    module.register_forward_pre_hook(register)
    module(leaf(2.0), k=leaf(3.0)).backward()
    assert log == ["plain"] * before + [2.0]


def test_a_host_hook_takes_the_options_and_a_device_hook_none():
    module, log = Lambda(lambda x, *, k: x * k), []
    module.register_full_backward_hook(
        lambda m, a, k, go: log.append((float(a[0]), float(k["k"]))),
        with_kwargs=True,
        when="complete",
        host=True,
    )
    module(leaf(2.0), k=leaf(3.0)).backward()
    assert log == [(3.0, 2.0)]
    for options in ({"with_kwargs": True}, {"when": "complete"}):
        with pytest.raises(TypeError, match="a device hook runs with the accumulation"):
            module.register_full_backward_hook(gradhook.device_hooks.Scale(2.0), **options)


def test_device_hooks_keep_their_place_among_hooks_with_options():
    module, log = Lambda(lambda x, *, k: x * k), []
    module.register_full_backward_hook(gradhook.device_hooks.Scale(2.0))
    module.register_full_backward_hook(
        lambda m, a, k, go: log.append((value(a[0]), value(k["k"]))) or ((a[0] + 1,), {}),
        with_kwargs=True,
    )
    module.register_full_backward_hook(gradhook.device_hooks.Scale(10.0))
    x = leaf(2.0)
    module(x, k=gradhook.tensor(3.0, dtype=F64)).backward()
    assert log == [(6.0, None)] and x.grad.item() == 70.0
