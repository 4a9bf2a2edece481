"""Edges, accumulators, hooks on new nodes, questions about the current run (HOOKS.md 1.2, 1.3)."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradhook
from gradhook import _C, autograd
from gradhook.autograd import graph

F64 = gradhook.float64


def leaf(values):
    return gradhook.tensor(values, dtype=F64, requires_grad=True)


def test_the_graph_module_offers_what_pytorchs_does():
    for name in (
        "saved_tensors_hooks save_on_cpu disable_saved_tensors_hooks register_multi_grad_hook "
        "allow_mutation_on_saved_tensors Node GradientEdge get_gradient_edge increment_version"
    ).split():
        assert name in dir(graph) and callable(getattr(graph, name))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        graph.nothing  # noqa: B018


# ---- edges


def test_an_edge_stands_for_its_tensor_as_root_and_as_input():
    x = leaf([1.0])
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge == (y.grad_fn, 0, None)
    z = y * 3
    assert autograd.grad(z, edge, retain_graph=True)[0].tolist() == [3]
    assert autograd.grad(edge, x, gradhook.tensor([5.0], dtype=F64))[0].tolist() == [10]


def test_an_edge_keeps_its_place_when_the_tensor_is_written():
    x = leaf([1.0]).clone()
    edge = graph.get_gradient_edge(x)
    x.mul_(2)
    old, new = autograd.grad(x.sum(), (edge, x))
    assert (old.tolist(), new.tolist()) == ([2], [1])


def test_a_hook_on_an_edge_is_a_tensor_hook_of_the_tensor_that_may_be_gone():
    x, log = leaf([1.0]), []
    y = x * 2
    edge = graph.get_gradient_edge(y)
    y.register_hook(lambda g: g * 10)
    with edge.register_hook(lambda g: log.append(g.tolist()) or g * 7):
        z = y * 3
        del y
        z.backward(retain_graph=True)
    z.backward()
    assert log == [[30]] and x.grad.tolist() == [3 * 10 * 7 * 2 + 3 * 10 * 2]


def test_an_edge_can_be_named_in_backward_inputs():
    x, w, log = leaf([1.0]), leaf([2.0]), []
    y = x * 2
    edge = graph.get_gradient_edge(y)
    edge.register_hook(lambda g: log.append(g.tolist()))
    (y * w).backward(inputs=(edge,))
    assert log == [[2]] and w.grad is None and x.grad is None


def test_a_tensor_without_gradient_has_no_edge():
    with pytest.raises(
        RuntimeError, match=r"^It is not possible to get the gradient edge for a Ten"
    ):
        graph.get_gradient_edge(gradhook.ones(1))
    with pytest.raises(TypeError, match="found int, expected a Tensor"):
        graph.get_gradient_edge(3)


# ---- accumulators


def test_hooks_on_an_accumulator_live_as_long_as_its_leaf():
    x, log = leaf([1.0]), []
    graph.get_accumulator(x).register_prehook(lambda g: log.append("pre"))
    graph.get_accumulator(x).register_hook(lambda gi, go: log.append("post"))
    gc.collect()
    (x * 2).backward()
    assert log == ["pre", "post"]
    assert graph.get_accumulator(x) is x.view_as(x).grad_fn.next_functions[0][0]


def test_only_a_leaf_has_an_accumulator():
    with pytest.raises(RuntimeError, match="the tensor is no leaf, MulBackward0 made it"):
        graph.get_accumulator(leaf([1.0]) * 2)


def test_post_accumulate_hooks_do_not_fire_when_nothing_was_accumulated():
    x, log = leaf([1.0, 2.0]), []

    class Nothing(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad))
    Nothing.apply(x).sum().backward()
    assert log == [] and x.grad is None


def test_the_version_of_what_is_no_tensor_cannot_move():
    with pytest.raises(RuntimeError, match=r"^increment_version expect a Iterable\[Tensor\] as in"):
        graph.increment_version(3)
    with pytest.raises(TypeError, match=r"^increment_version expects each element of the iterable"):
        graph.increment_version([gradhook.ones(1), 3])


# ---- new nodes


def test_a_hook_on_new_nodes_sees_each_one_fully_built():
    x, log = leaf([1.0]), []

    class Own(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    def note(node):
        log.append((node.name(), node.next_functions[0][0].name().split("::")[-1]))

    with graph.node_creation_hook(note):
        z = Own.apply((x * 2).exp())
        with gradhook.no_grad():
            x * 5
        z.detach() * 3
    x * 2
    assert log == [
        ("MulBackward0", "AccumulateGrad"),
        ("ExpBackward0", "MulBackward0"),
        ("OwnBackward", "ExpBackward0"),
    ]


def test_hooks_on_new_nodes_nest_outer_first_and_may_change_the_node():
    x, log = leaf([1.0]), []

    def scale(node):
        node.register_hook(lambda gi, go: (gi[0] * 10, None))

    with (
        graph.node_creation_hook(lambda n: log.append("outer")),
        graph.node_creation_hook(lambda n: log.append("inner")),
        graph.node_creation_hook(scale),
    ):
        y = x * 2
    y.backward()
    assert log == ["outer", "inner"] and x.grad.tolist() == [20]
    with pytest.raises(TypeError, match="expects a function, found int"):
        graph.node_creation_hook(3)
    assert gradhook.modes.get_modes().watch is None


# ---- the current run


def test_the_run_has_a_number_and_there_is_none_outside():
    x, ids = leaf([1.0]), []
    y = x * 2
    y.register_hook(lambda g: ids.append(_C._current_graph_task_id()))
    y.backward(retain_graph=True)
    y.backward()
    assert ids[1] - ids[0] == 1 and _C._current_graph_task_id() == -1


def test_the_node_whose_hooks_run_is_known():
    x, log = leaf([1.0]), []

    def note(*_):
        log.append(_C._current_autograd_node())

    y = x * 2
    y.register_hook(note)
    y.grad_fn.register_hook(note)
    x.register_post_accumulate_grad_hook(note)
    y.sum().backward()
    assert log == [y.grad_fn, y.grad_fn, graph.get_accumulator(x)]
    assert _C._current_autograd_node() is None


def test_whether_a_node_runs_is_answered_in_every_kind_of_run():
    a, b = leaf([1.0]), leaf([2.0])
    y = a * b
    unused = y.cos()
    z = y.exp()
    nodes = {
        "a": graph.get_accumulator(a),
        "b": graph.get_accumulator(b),
        "y": y.grad_fn,
        "unused": unused.grad_fn,
        "z": z.grad_fn,
    }
    log = []

    def note(g):
        log.append("".join(k for k, n in nodes.items() if _C._will_engine_execute_node(n)))

    z.register_hook(note)
    y.register_hook(note)
    z.backward(retain_graph=True)
    z.backward(inputs=(a, y), retain_graph=True)
    autograd.grad(z, a, retain_graph=True)
    autograd.grad(z, y, retain_graph=True)
    assert log == ["abyz"] * 2 + ["ayz"] * 4 + ["yz"] * 2
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        _C._will_engine_execute_node(z.grad_fn)
    with pytest.raises(RuntimeError, match="expects an grad_fn, but got Tensor"):
        _C._will_engine_execute_node(z)


def test_the_predicted_order_is_the_order_of_execution():
    a, predicted, ran = leaf([1.0]), [], []
    b = a.sin()
    c, d = b.cos(), a.exp()
    out = (c * d + b).sum()
    nodes = [out.grad_fn]
    for node in nodes:
        nodes += [n for n, _ in node.next_functions if n is not None and n not in nodes]
    for node in nodes:
        node.register_prehook(lambda go, node=node: ran.append(node))
    out.register_hook(lambda g: predicted.extend(_C._current_graph_task_execution_order()))
    out.backward()
    assert predicted == ran and len(ran) == len(nodes)
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        _C._current_graph_task_execution_order()


def test_what_flows_into_a_node_is_described():
    y = leaf([[1.0, 2.0]]) * 2
    (meta,) = y.grad_fn._input_metadata
    assert (meta.shape, meta.dtype) == ((1, 2), F64)


def test_a_question_keeps_no_run_alive():
    state = []

    def note(g):
        _C._will_engine_execute_node(y.grad_fn)
        state.append(weakref.ref(g))

    y = leaf([1.0]) * 2
    y.register_hook(note)
    gc.collect()
    gc.disable()
    try:
        y.backward()
        assert state[0]() is None
    finally:
        gc.enable()


def test_a_weak_reference_tells_whether_a_tensor_is_gone():
    x = leaf([1.0])
    ref = _C._WeakTensorRef(x)
    assert not ref.expired()
    del x
    assert ref.expired()
