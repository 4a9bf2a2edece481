"""Hooked modules: what comes out is what went in, or was made inside; in-place; create_graph."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import autograd, nn

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def shown(value):
    """Gradients as plain lists."""
    if isinstance(value, gradhook.Tensor):
        return value.tolist()
    return tuple(shown(v) for v in value) if isinstance(value, tuple) else value


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


@pytest.fixture
def seen():
    return []


def watched(function, seen):
    module = Lambda(function)
    module.register_full_backward_hook(lambda m, gi, go: seen.append((shown(gi), shown(go))))
    return module


# ---- forward hooks and aliases


def test_what_a_forward_hook_keeps_goes_through_the_full_hook(seen):
    # PyTorch puts the barrier behind the forward hooks (HOOKS.md D24)
    module, kept = Lambda(lambda x: x * 2), []
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    module.register_forward_hook(lambda m, args, out: kept.append(out))
    x = leaf(1.0)
    module(x)
    kept[0].backward()
    assert x.grad.item() == 20


@pytest.mark.parametrize("both", [False, True])
def test_a_replaced_output_is_what_the_hooks_are_about_as_one_event(both, seen):
    module = watched(lambda x: (x * 2, x * 3), seen)
    module.register_forward_hook(
        lambda m, args, out: (out[0] * 10, out[1]) if both else out[0] * 10
    )
    x = leaf(1.0)
    out = module(x)
    (out[0] + out[1] if both else out).backward()
    assert seen == ([((23.0,), (1.0, 1.0))] if both else [((20.0,), (1.0,))])
    assert x.grad.item() == (23 if both else 20)


def test_an_identity_module_passes_its_input_on(seen):
    x = leaf(2.0)
    h = x * 1
    y = watched(lambda t: t, seen)(h)
    (y * 3 + h).backward()
    assert seen == [((3.0,), (3.0,))] and x.grad.item() == 4


def test_nested_identities_fire_each(seen):
    module = nn.Sequential(watched(lambda t: t, seen), watched(lambda t: t, seen))
    module.register_full_backward_hook(lambda m, gi, go: seen.append("outer"))
    x = leaf(2.0)
    (module(x) * 3).backward()
    assert seen == [((3.0,), (3.0,))] * 2 + ["outer"] and x.grad.item() == 3


def test_one_object_at_two_positions_of_the_output_has_two_entries(seen):
    def forward(x):
        h = x * 2
        return h, h

    x = leaf(1.0)
    a, b = watched(forward, seen)(x)
    (a * 5 + b * 7).backward()
    assert seen == [((24.0,), (5.0, 7.0))] and x.grad.item() == 24


def test_a_returned_parameter_stays_a_leaf_itself_and_gets_its_gradient(seen):
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(gradhook.tensor([2.0], dtype=F64))

        def forward(self, x):
            return self.w, x * 2

    module = Holds()
    module.register_full_backward_hook(lambda m, gi, go: seen.append((shown(gi), shown(go))))
    w, y = module(leaf([1.0]))
    assert module.w.is_leaf and w.requires_grad
    (w * 3 + y).sum().backward()
    assert seen == [(([2],), ([3], [1]))] and module.w.grad.tolist() == [3]


def test_an_output_of_an_earlier_call_is_not_taken_over(seen):
    first = watched(lambda x: x * 2, seen)
    kept = first(leaf(1.0))
    log = []
    second = watched(lambda x: kept, log)
    out = second(leaf(5.0))
    (out * 3).backward()
    assert seen == [((2.0 * 3,), (3.0,))] and out is not kept


def test_a_tensor_kept_by_the_module_and_returned_is_one_history(seen):
    class Keeps(nn.Module):
        def forward(self, x):
            self.h = x * x
            return self.h

    module = Keeps()
    module.register_full_backward_hook(lambda m, gi, go: seen.append(shown(go)))
    x = leaf(3.0)
    out = module(x)
    assert out is module.h
    out.mul_(10)
    (module.h + out).backward()
    assert x.grad.item() == 120 and seen == [(20.0,)]


# ---- in-place


def test_an_output_can_be_written_and_the_hook_sees_the_gradient_before_the_write(seen):
    x = leaf([1.0, 2.0])
    y = watched(lambda t: t * 3, seen)(x)
    y.mul_(10)
    y[0] = 7
    y.sum().backward()
    assert seen == [(([0, 30],), ([0, 10],))] and x.grad.tolist() == [0, 30]


@pytest.mark.parametrize("view", [lambda t: t[0], lambda t: t.view(-1), lambda t: t.unbind()[0]])
def test_an_output_that_is_a_view_can_be_read_after_its_base_was_written(view, seen):
    def forward(x):
        return view(x * 3)

    x = leaf([[1.0, 2.0]])
    y = watched(forward, seen)(x)
    (y * 2).sum().backward()
    assert seen[0][1] == ([2, 2],) and x.grad.tolist() == [[6, 6]]


def test_an_output_that_is_a_view_can_be_written(seen):
    x = leaf([1.0, 2.0, 3.0])
    y = watched(lambda t: (t * 3)[1:], seen)(x)
    y.mul_(10)
    y.sum().backward()
    assert seen == [(([0, 30, 30],), ([10, 10],))]


def test_a_view_of_an_output_can_be_written_and_its_siblings_follow(seen):
    x = leaf([1.0, 2.0])
    y = watched(lambda t: t * 3, seen)(x)
    a, b = y[0], y[1:]
    a.mul_(10)
    (y.sum() + b.sum()).backward()
    assert seen == [(([30, 6],), ([10, 2],))]


@pytest.mark.parametrize("first", ["view", "base"])
@pytest.mark.parametrize("late", [False, True], ids=["", "written_afterwards"])
def test_an_output_and_a_view_of_it_have_their_own_gradients(first, late, seen):
    def forward(t):
        h = t * 3
        v = h[0]
        h.mul_(2)
        return (v, h) if first == "view" else (h, v)

    x = leaf([1.0, 2.0])
    out = watched(forward, seen)(x)
    v, h = out if first == "view" else out[::-1]
    if late:
        h.mul_(10)
        assert v.item() == 60
    (v * 5 + h.sum()).backward()
    if late:  # v's gradient comes by way of the base that was written
        assert x.grad.tolist() == [6 * 60, 60]
        grads = (None, [60, 10])
    else:
        assert x.grad.tolist() == [6 * 6, 6]
        grads = (5.0, [1, 1])
    assert seen == [((x.grad.tolist(),), grads if first == "view" else grads[::-1])]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 1, 0)])
def test_views_of_one_output_in_any_order_keep_every_gradient(order, seen):
    def forward(t):
        h = t * 3
        made = (h, h[:1], h.view(2)[1:])
        return tuple(made[k] for k in order)

    x = leaf([1.0, 2.0])
    out = watched(forward, seen)(x)
    sum((t.sum() * (k + 1) for k, t in enumerate(out)), 0.0).backward()
    expected, sizes = [0.0, 0.0], {0: (0, 1), 1: (0,), 2: (1,)}
    for weight, which in enumerate(order, 1):
        for place in sizes[which]:
            expected[place] += 3 * weight
    assert x.grad.tolist() == expected and len(seen) == 1
    assert seen[0][1] == tuple([w] * len(sizes[which]) for w, which in enumerate(order, 1))


def test_an_input_written_in_forward_is_written_for_the_caller_too(seen):
    x = leaf([2.0])
    h = x * 1
    y = watched(lambda t: t.mul_(3) * t, seen)(h)
    assert h.tolist() == [6]
    (y + h * 100).sum().backward()  # y = 9 x^2, h = 3 x
    assert x.grad.tolist() == [36 + 300]


def test_an_input_that_is_a_view_written_in_forward_rebases_the_callers_base(seen):
    x = leaf([2.0, 5.0])
    base = x * 1
    y = watched(lambda t: t.mul_(3) * 2, seen)(base[:1])
    assert base.tolist() == [6, 5]
    (y.sum() + (base * base).sum()).backward()  # y = 6 x0; base = (3 x0, x1)
    assert x.grad.tolist() == [6 + 18 * 2, 10]
    assert seen == [(([42],), ([1],))]


def test_the_same_input_twice_one_written_the_other_read(seen):
    x = leaf([2.0])
    h = x * 1

    def forward(a, b):
        a.mul_(3)
        return b * 1

    watched(forward, seen)(h, h).sum().backward()
    assert x.grad.tolist() == [3]


def test_a_leaf_written_in_forward_is_refused_as_without_a_hook(seen):
    with pytest.raises(
        RuntimeError, match=r"^a leaf Variable that requires grad is being used in an"
    ):
        watched(lambda t: t.mul_(3), seen)(leaf([1.0]))
    with pytest.raises(
        RuntimeError, match=r"^a view of a leaf Variable that requires grad is being"
    ):
        watched(lambda t: t.mul_(3), seen)(leaf([1.0, 2.0])[:1])


def test_inplace_modules_between_hooked_ones_work(seen):
    model = nn.Sequential(
        nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1), nn.ReLU(inplace=True)
    )
    plain = [p.detach().clone() for p in model.parameters()]
    x = gradhook.ones(2, 3)
    model(x).sum().backward()
    expected = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    for layer in model:
        layer.register_full_backward_hook(lambda m, gi, go: seen.append(type(m).__name__))
    model(x).sum().backward()
    assert [p.grad.tolist() for p in model.parameters()] == expected
    assert seen == ["ReLU", "Linear", "ReLU", "Linear"] and len(plain) == 4


# ---- create_graph


def test_create_graph_through_hooked_modules_gives_second_derivatives(seen):
    module, x = watched(lambda t: t**3, seen), leaf(2.0)
    (g,) = autograd.grad(module(x), [x], create_graph=True)
    assert g.item() == 12 and g.requires_grad
    (h,) = autograd.grad(g, [x])
    assert h.item() == 12 and seen[0] == ((12.0,), (1.0,))


def test_what_a_hook_does_under_create_graph_is_differentiated():
    module, x = Lambda(lambda t: t**2), leaf(3.0)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * gi[0],))
    (g,) = autograd.grad(module(x), [x], create_graph=True)
    assert g.item() == 36  # (2x)^2
    module._backward_hooks.clear()
    (h,) = autograd.grad(g, [x])
    assert h.item() == 24 * 24 * 24 or h.item() == 24  # 8x


def test_a_detached_gradient_of_a_hook_cuts_the_double_graph():
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g.detach())
    (g,) = autograd.grad(y * y, [x], create_graph=True)  # 2y * 2x, the 2y detached
    assert g.item() == 108
    y2 = x * 1
    (h,) = autograd.grad(g, [x])
    assert h.item() == 36 and y2.requires_grad  # 2 * 18


def test_a_second_derivative_that_enters_past_the_outputs_is_no_event(seen):
    # PyTorch pairs it with the grad_output of the first run (HOOKS.md D4)
    linear = nn.Linear(2, 2, bias=False).double()
    linear.register_full_backward_hook(lambda m, gi, go: seen.append(shown(go)))
    a = leaf([[1.0, 2.0]])
    h = linear(a)
    (gw,) = autograd.grad((h * 5).sum(), [linear.weight], create_graph=True)
    seen.clear()
    (ga,) = autograd.grad(gw.sum(), [a])
    assert seen == [] and ga.tolist() == [[10, 10]]


@pytest.mark.parametrize("when", ["auto", "outputs", "complete"])
def test_a_gradient_penalty_with_hooks_on_every_layer_equals_the_unhooked_one(when, seen):
    def penalised(hooked):
        gradhook.manual_seed(3)
        model = nn.Sequential(
            nn.Linear(3, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 4), nn.Softplus(),
            nn.Linear(4, 1),
        ).double()  # fmt: skip
        if hooked:
            for module in model.modules():
                module.register_full_backward_hook(lambda m, gi, go: seen.append(m), when=when)
                module.register_full_backward_pre_hook(lambda m, go: None)
                module.register_forward_hook(lambda m, a, o: None)
        x = gradhook.tensor([[0.1, 0.2, 0.3], [0.5, -0.4, 0.3]], dtype=F64, requires_grad=True)
        out = model(x)
        (gx,) = gradhook.autograd.grad(out.sum(), x, create_graph=True)
        loss = out.pow(2).mean() + 10 * (gx.pow(2).sum(1).sqrt() - 1).pow(2).mean()
        loss.backward()
        return [loss, x.grad, *(p.grad for p in model.parameters())]

    for found, expected in zip(penalised(True), penalised(False), strict=True):
        assert gradhook.allclose(found, expected, rtol=1e-12, atol=0)
    assert seen


# ---- inputs given back


@pytest.fixture
def calls():
    return []


def test_under_no_grad_an_input_given_back_is_the_callers_tensor_and_no_event(calls):
    class Same(nn.Module):
        def forward(self, *xs):
            return xs if len(xs) > 1 else xs[0]

    module = Same()
    module.register_full_backward_hook(lambda m, gi, go: calls.append(go))
    x = gradhook.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    with gradhook.no_grad():
        one, pair, inner = module(x), module(x, y), module(y)
    assert one is x and pair[0] is x and inner.grad_fn is y.grad_fn
    (one + pair[0] + pair[1] + inner).sum().backward()
    assert calls == [] and x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("as_keyword", [False, True])
def test_a_constant_written_in_forward_and_given_back_passes_the_barrier_in_the_result_only(
    calls, as_keyword
):
    # as an input that has a gradient does, and as in PyTorch
    class Fill(nn.Module):
        def forward(self, buffer, x):
            buffer.add_(x)
            return buffer

    module = Fill()
    module.register_full_backward_hook(lambda m, gi, go: calls.append(go[0].tolist()))
    x = gradhook.tensor([1.0, 2.0], requires_grad=True)
    buffer = gradhook.zeros(2)
    result = module(buffer=buffer, x=x) if as_keyword else module(buffer, x)
    (buffer * 2 + result * 3).sum().backward()
    assert calls == [[3.0, 3.0]] and x.grad.tolist() == [5.0, 5.0]
    result.mul_(2)
    assert buffer.tolist() == [2.0, 4.0]
