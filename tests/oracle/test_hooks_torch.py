"""The same hook scripts on torch and gradhook, where torch defines the result."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

pytest.importorskip("torch", reason="differential tests need torch")

# Where the texts name types or modules, only PyTorch's words up to there are compared.
STEMS = (
    "expected tuple, but hook returned",
    "expected Variable, but hook returned",
    "has returned an incorrect number of values",
    "has changed the size of value",
    "has changed the type of value",
    "can't replace a None gradient with a non-None value",
    "invalid number of grad_input, got 2, but expected 1",
    "invalid number of grad_output, got 2, but expected 1",
    "where no input requires gradient should always return None or None for all gradients.",
    "cannot register a hook on a tensor that doesn't require gradient",
    "post accumulate grad hooks cannot be registered on non-leaf tensors",
    "hooks should return None.",
    "can't retain_grad on Tensor that has requires_grad=False",
    "Cannot use both regular backward hooks and full backward hooks on a single Module.",
    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got",
    "Trying to backward through the graph a second time",
)


class Script:
    """What a script runs with: one library, leaves in float64, and a log of plain values."""

    def __init__(self, name):
        self.lib = importlib.import_module(name)
        self.nn = importlib.import_module(f"{name}.nn")
        self.log = []

    def leaf(self, values):
        return self.lib.tensor(values, dtype=self.lib.float64, requires_grad=True)

    def say(self, name):
        """A hook that logs its gradients and returns None."""
        return lambda *args: self.note(name, *args)

    def note(self, name, *args):
        self.log.append((name, *[self.plain(a) for a in args if not self.is_module(a)]))

    def is_module(self, value):
        return isinstance(value, self.nn.Module)

    def plain(self, value):
        if isinstance(value, self.lib.Tensor):
            return np.round(value.detach().numpy(), 9).tolist()
        return tuple(map(self.plain, value)) if isinstance(value, tuple) else value

    def attempt(self, action):
        """Log what an action raises: the type, and which of PyTorch's sentences."""
        try:
            action()
            self.log.append("no error")
        except Exception as error:
            found = next((s for s in STEMS if s in str(error)), str(error))
            self.log.append((type(error).__name__, found))

    def module(self, function):
        class Lambda(self.nn.Module):
            def forward(self, *args, **kwargs):
                return function(*args, **kwargs)

        return Lambda()


def order_at_a_node(s):
    y = s.leaf([1.0, 2.0]) * 3
    y.grad_fn.register_hook(s.say("post"))
    y.grad_fn.register_prehook(s.say("pre"))
    y.retain_grad()
    y.register_hook(lambda g: s.note("tensor", g) or g * 2)
    y.register_hook(s.say("tensor 2"))
    y.sum().backward()
    s.note("grad", y.grad)


def order_at_a_leaf(s):
    x = s.leaf([1.0])
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_hook(s.say("post"))
    node.register_prehook(s.say("pre"))
    x.register_post_accumulate_grad_hook(lambda p: s.note("accumulated", p.grad))
    x.register_hook(s.say("tensor"))
    (x * 2 + x).sum().backward()


def order_of_nodes(s):
    x, w = s.leaf([1.0]), s.leaf([2.0])
    a = x * w
    b = a.exp()
    c = a * b
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.grad_fn.register_prehook(s.say(name))
    x.register_hook(s.say("x"))
    (c + b).sum().backward()


def captured_only(s):
    x = s.leaf([1.0])
    y = x * 2
    y.register_hook(s.say("tensor"))
    y.grad_fn.register_prehook(s.say("pre"))
    x.register_post_accumulate_grad_hook(s.say("accumulated"))
    z = (y * y).sum()
    s.note("got", s.lib.autograd.grad(z, [y], retain_graph=True)[0])
    s.note("got", s.lib.autograd.grad(z, [x], retain_graph=True)[0])
    z.backward(inputs=[x])


def undefined_gradients(s):
    x = s.leaf([1.0, 2.0, 3.0])
    a, b, c = x.unbind()
    b.register_hook(s.say("b"))
    a.grad_fn.register_prehook(s.say("pre"))
    (a * 2 + c).backward()
    s.note("grad", x.grad)


def in_place_and_hooks(s):
    x = s.leaf([1.0, 2.0])
    y = x * 1
    y.register_hook(s.say("old"))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(s.say("new"))
    (y * y).sum().backward()
    s.note("grads", y.grad, x.grad)


def snapshot_while_firing(s):
    x = s.leaf([1.0])
    handles = []

    def first(g):
        s.note("first")
        handles[0].remove()
        x.register_hook(s.say("added"))

    x.register_hook(first)
    handles.append(x.register_hook(s.say("second")))
    for _ in range(2):
        (x * 2).sum().backward()


def create_graph_through_hooks(s):
    x = s.leaf([3.0])
    y = x * x
    y.register_hook(lambda g: g * g * 2)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * x,))
    (g,) = s.lib.autograd.grad((y * x).sum(), [x], create_graph=True)
    (h,) = s.lib.autograd.grad(g.sum(), [x])
    s.note("found", g, h)


def detached_in_a_hook(s):
    x = s.leaf([3.0])
    y = x * x
    y.register_hook(lambda g: g.detach())
    (g,) = s.lib.autograd.grad((y * y).sum(), [x], create_graph=True)
    s.note("found", g, s.lib.autograd.grad(g.sum(), [x])[0])


def wrong_tensor_hook_results(s):
    f64 = s.lib.float64
    for value in (5, (1,), s.lib.ones(2, dtype=f64), s.lib.ones(1)):
        x = s.leaf([1.0])
        x.register_hook(lambda g, value=value: value)
        s.attempt((x * 1).sum().backward)


def wrong_node_hook_results(s):
    one = s.lib.ones(1, dtype=s.lib.float64)
    for value in (one, [one], (one, one, one), (5,), (s.lib.ones(2, dtype=s.lib.float64),)):
        for register in ("register_prehook", "register_hook"):
            y = s.leaf([1.0]).exp()
            getattr(y.grad_fn, register)(lambda *gs, value=value: value)
            s.attempt(y.sum().backward)


def wrong_registrations(s):
    x, c = s.leaf([1.0]), s.lib.ones(1)
    s.attempt(lambda: c.register_hook(print))
    s.attempt(lambda: c.register_post_accumulate_grad_hook(print))
    s.attempt(lambda: (x * 1).register_post_accumulate_grad_hook(print))
    s.attempt(c.retain_grad)
    x.register_post_accumulate_grad_hook(lambda p: p.detach())
    s.attempt((x * 1).sum().backward)
    module = s.nn.ReLU()
    module.register_full_backward_hook(print)
    s.attempt(lambda: module.register_backward_hook(print))


def second_backward(s):
    x = s.leaf([2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    s.note("grad", x.grad)
    s.attempt(y.backward)


def module_order(s):
    inner, outer = s.nn.Tanh(), s.nn.Sequential()
    outer.append(inner)
    for name, m in (("inner", inner), ("outer", outer)):
        m.register_full_backward_hook(s.say(f"{name} full"))
        m.register_full_backward_hook(s.say(f"{name} first"), prepend=True)
        m.register_full_backward_pre_hook(s.say(f"{name} pre"))
        m.register_forward_pre_hook(s.say(f"{name} forward pre"))
        m.register_forward_hook(s.say(f"{name} forward"))
    x = s.leaf([0.5, 1.5])
    y = outer(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    s.note("grad", x.grad)


def module_replacements(s):
    module = s.module(lambda a, b: a * b)
    module.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    module.register_full_backward_pre_hook(s.say("pre"))
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1, gi[1] * 3))
    module.register_full_backward_hook(s.say("full"))
    a, b = s.leaf([2.0]), s.leaf([5.0])
    module(a, b).sum().backward()
    s.note("grads", a.grad, b.grad)


def module_outputs(s):
    module = s.module(lambda x: (x * 2, x * 3, x * 4))
    module.register_full_backward_pre_hook(s.say("pre"))
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf([1.0])
    a, b, _ = module(x)
    (a + b * b).sum().backward(retain_graph=True)
    b.sum().backward()
    s.note("grad", x.grad)


def module_twice_and_recursive(s):
    module = s.module(lambda x: x * x)
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf([1.5])
    (module(module(x)) + module(x)).sum().backward()
    s.note("grad", x.grad)


def module_same_input_twice(s):
    module = s.module(lambda a, b: a * 3 + b * b)
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf([2.0])
    module(x, x).sum().backward()
    s.note("grad", x.grad)


def module_residual(s):
    module = s.module(lambda x: x + x**2)
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf(3.0)
    y = module(x)
    z = y + s.lib.relu(y)
    z.backward(retain_graph=True)
    z.backward()
    s.note("grad", x.grad)


def module_forward_hooks_replace(s):
    module = s.module(lambda x, scale=1.0: x * scale)
    module.register_forward_pre_hook(lambda m, a, k: ((a[0] + 1,), {"scale": 3}), with_kwargs=True)
    module.register_forward_pre_hook(lambda m, a: a[0] * 2)
    module.register_forward_hook(lambda m, a, out: out * 10)
    module.register_forward_hook(s.say("forward"))
    module.register_full_backward_hook(s.say("full"))
    x = s.leaf([1.0])
    module(x, scale=2.0).sum().backward()
    s.note("grad", x.grad)


def module_frozen_hooks(s):
    module = s.nn.ReLU()
    handle = module.register_full_backward_hook(s.say("old"))
    y = module(s.leaf([1.0]))
    handle.remove()
    module.register_full_backward_hook(s.say("new"))
    y.sum().backward()


def module_create_graph(s):
    module = s.module(lambda x: x**3)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    x = s.leaf([2.0])
    (g,) = s.lib.autograd.grad(module(x).sum(), [x], create_graph=True)
    (h,) = s.lib.autograd.grad(g.sum(), [x])
    s.note("found", g, h)


def module_wrong_results(s):
    one = s.lib.ones(1, dtype=s.lib.float64)
    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        for value in ((one, one), (5,), (s.lib.ones(3, dtype=s.lib.float64),), (s.lib.ones(1),)):
            module = s.module(lambda x: x * 2)
            getattr(module, register)(lambda *a, value=value: value)
            s.attempt(module(s.leaf([1.0])).sum().backward)


def module_gradient_where_none_is_required(s):
    w = s.leaf([2.0])
    module = s.module(lambda x: x * w)
    module.register_full_backward_hook(lambda m, gi, go: (None,))
    module.register_full_backward_hook(lambda m, gi, go: s.note("full", go))
    module(s.lib.ones(1, dtype=s.lib.float64)).sum().backward()
    module.register_full_backward_hook(lambda m, gi, go: go)
    s.attempt(module(s.lib.ones(1, dtype=s.lib.float64)).sum().backward)


def module_under_no_grad(s):
    module = s.nn.ReLU()
    module.register_full_backward_hook(s.say("full"))
    with s.lib.no_grad():
        y = module(s.leaf([1.0]))
    s.note("requires grad", y.requires_grad)


def global_hooks(s):
    everywhere = importlib.import_module(f"{s.lib.__name__}.nn.modules.module")
    model = s.nn.Sequential(s.nn.Tanh(), s.nn.ReLU())
    model[0].register_full_backward_hook(s.say("own"))
    handles = [
        everywhere.register_module_forward_pre_hook(s.say("forward pre")),
        everywhere.register_module_forward_hook(s.say("forward")),
        everywhere.register_module_full_backward_pre_hook(s.say("pre")),
        everywhere.register_module_full_backward_hook(s.say("full")),
    ]
    try:
        y = model(s.leaf([0.5]))
    finally:
        for handle in handles:
            handle.remove()
    y.sum().backward()


def legacy_hooks(s):
    module = s.module(lambda x: x.exp())
    module.register_backward_hook(s.say("legacy"))
    module.register_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    x = s.leaf([0.5])
    module(x).sum().backward()
    s.note("grad", x.grad)


SCRIPTS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", None) == __name__ and not isinstance(value, type)
]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_a_hook_script_gives_what_torch_gives(script):
    logs = []
    for name in ("torch", "gradhook"):
        run = Script(name)
        script(run)
        logs.append(run.log)
    assert logs[1] == logs[0]
