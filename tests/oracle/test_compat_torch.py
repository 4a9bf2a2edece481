"""Under compat("torch") the quirks of PyTorch come back: the same scripts on both libraries."""

from __future__ import annotations

import contextlib
import warnings
from collections import namedtuple

import pytest

pytest.importorskip("torch", reason="differential tests need torch")

from test_hooks_torch import Script

import gradhook

Pair = namedtuple("Pair", "first second")


class Quirks(Script):
    """A Script whose errors and warnings are compared up to the words PyTorch has had since 2.0."""

    STEMS = (
        "is a view and is being modified inplace.",
        "is a view and its base or another view of its base has been modified inplace.",
        "Such functions do not allow the output views to be modified inplace",
        "can't replace a None gradient with a non-None value",
        "Full backward hook is firing when gradients are computed",
        "module output should be a Tensor or a tuple of Tensors but received",
        "where no input requires gradient should always return None or None for all gradients.",
    )

    def stem(self, text):
        return next((s for s in self.STEMS if s in text), text)

    def attempt(self, action):
        try:
            action()
            self.log.append("no error")
        except Exception as error:
            self.log.append((type(error).__name__, self.stem(str(error))))

    def warned(self, action):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            action()
        self.log.append([(w.category.__name__, self.stem(str(w.message))) for w in caught])


def grad_input_is_zeros_for_a_tensor_that_needs_or_got_no_gradient(s):
    module = s.module(lambda x, i, c, u, k: x * c + i)
    module.register_full_backward_hook(s.say("full"))
    x, unused = s.leaf([1.0, 2.0]), s.leaf([3.0])
    i, c = s.lib.tensor([1, 2]), s.lib.tensor([2.0, 2.0], dtype=s.lib.float64)
    module(x, i, c, unused, "text").sum().backward()
    s.note("grads", x.grad, unused.grad)


def zeros_reach_the_next_hooks_and_what_comes_back_for_them_is_dropped(s):
    module = s.module(lambda x, c: x * c)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2, gi[1] + 5))
    module.register_full_backward_hook(s.say("second"))
    x = s.leaf([1.0])
    module(x, s.lib.tensor([2.0], dtype=s.lib.float64)).sum().backward()
    s.note("grad", x.grad)


def a_value_for_an_argument_that_is_no_tensor_is_dropped(s):
    module = s.module(lambda x, k: x * k)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0] + 5))
    x = s.leaf([1.0])
    module(x, 2.0).sum().backward()
    s.note("grad", x.grad)


def tensors_in_keywords_are_not_seen(s):
    module = s.module(lambda x, k: x * k)
    module.register_full_backward_hook(s.say("full"))
    x, k = s.leaf([2.0]), s.leaf([3.0])
    module(x, k=k).sum().backward()
    s.warned(lambda: module(x.detach(), k=k).sum().backward())
    s.note("grads", x.grad, k.grad)


def tensors_in_containers_are_not_seen(s):
    module = s.module(lambda xs: (xs[0] * 2, (xs[1] * 3,)))
    module.register_full_backward_hook(s.say("full"))
    x, y = s.leaf([1.0]), s.leaf([1.0])

    def run():
        a, (b,) = module([x, y])
        (a + b).sum().backward()

    s.warned(run)
    s.note("grads", x.grad, y.grad)


def no_input_that_requires_grad_warns_each_pass_with_either_kind(s):
    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        module = s.nn.Linear(1, 1).double()
        getattr(module, register)(lambda *a: None)
        y = module(s.lib.ones(2, 1, dtype=s.lib.float64)).sum()
        for _ in range(2):
            s.warned(lambda y=y: y.backward(retain_graph=True))


def outputs_that_are_no_tensor_or_tuple_warn_each_call_and_fire_nothing(s):
    for make in (lambda x: {"y": x * 2}, lambda x: [x * 2]):
        module, kept = s.module(make), []
        module.register_full_backward_hook(s.say("full"))
        module.register_full_backward_pre_hook(s.say("pre"))
        x = s.leaf([1.0])
        for _ in range(2):
            s.warned(lambda module=module, kept=kept, x=x: kept.append(module(x)))
        y = kept[0]["y"] if isinstance(kept[0], dict) else kept[0][0]
        y.sum().backward()
        s.note("grad", x.grad)


def a_named_tuple_comes_back_as_one(s):
    module = s.module(lambda x: Pair(x * 2, "text"))
    module.register_full_backward_hook(s.say("full"))
    y = module(s.leaf([1.0]))
    s.note("type", type(y).__name__, y.second)
    y.first.sum().backward()


def an_output_may_not_be_written_in_place(s):
    for both in (False, True):
        module = s.module(lambda x, both=both: (x * 2, x * 3) if both else x * 2)
        module.register_full_backward_hook(s.say("full"))
        y = module(s.leaf([1.0]))
        s.attempt(lambda y=y, both=both: (y[0] if both else y).add_(1))
        (y[0] if both else y).sum().backward()


def an_input_may_not_be_written_in_forward(s):
    module = s.module(lambda x: x.add_(1))
    module.register_full_backward_hook(s.say("full"))
    s.attempt(lambda: module(s.leaf([1.0]) * 1))
    s.attempt(lambda: module(s.leaf([1.0])))


def an_inputs_alias_is_dead_once_its_base_was_written(s):
    kept = []
    module = s.module(lambda x: kept.append(x) or x * 2)
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf([1.0, 2.0]) * 1
    module(x)
    x[0] *= 2
    s.attempt(lambda: kept[0] + 2)


def a_none_gradient_may_not_be_replaced(s):
    def run(register):
        a, b = s.leaf([1.0, 2.0]).unbind()
        register(a)
        b.backward()

    s.attempt(lambda: run(lambda a: a.register_hook(lambda g: s.lib.ones((), dtype=s.lib.float64))))
    s.attempt(
        lambda: run(
            lambda a: a.grad_fn.register_prehook(
                lambda go: tuple(s.lib.ones((), dtype=s.lib.float64) for g in go)
            )
        )
    )


def post_accumulate_fires_when_nothing_was_accumulated(s):
    x = s.leaf([1.0])
    x.register_post_accumulate_grad_hook(lambda p: s.note("accumulated", p.grad))
    y = x * 2
    y.register_hook(lambda g: s.note("dropping"))
    y.grad_fn.register_hook(lambda gi, go: (None,) * len(gi))
    y.sum().backward()


def the_pairing_of_ordinary_passes_is_the_same(s):
    module = s.module(lambda x: x * x)
    module.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf([1.0, 3.0])
    y = module(x) + module(x * 2)
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    s.note("grad", x.grad)


SCRIPTS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", None) == __name__ and not isinstance(value, type)
]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.filterwarnings("ignore:For backward hooks to be called")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_under_compat_a_hook_script_gives_what_torch_gives(script):
    logs = []
    for name in ("torch", "gradhook"):
        run = Quirks(name)
        with gradhook.compat("torch") if name == "gradhook" else contextlib.nullcontext():
            script(run)
        logs.append(run.log)
    assert logs[1] == logs[0]
