"""Names of older PyTorch that libraries still use: Variable, saved_variables, and the switch for
backward threads.
"""

from __future__ import annotations

import pytest

import gradhook
from gradhook import _C, autograd
from gradhook.autograd import Variable


def test_a_variable_is_a_leaf_on_the_memory_of_its_tensor():
    data = gradhook.tensor([1.0, 2.0])
    plain, leaf = Variable(data), Variable(data * 1, requires_grad=True)
    assert type(plain) is gradhook.Tensor and isinstance(data, Variable)
    assert not isinstance(1.0, Variable) and not plain.requires_grad
    plain.zero_()
    assert data.tolist() == [0.0, 0.0]
    assert leaf.is_leaf and leaf.requires_grad
    recorded = gradhook.ones(2, requires_grad=True) * 2
    assert Variable(recorded).grad_fn is None
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])


def test_the_engine_of_variable_queues_callbacks():
    done = []
    x = gradhook.ones(2, requires_grad=True)
    x.register_hook(lambda g: Variable._execution_engine.queue_callback(lambda: done.append(1)))
    x.sum().backward()
    assert done == [1]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during"):
        Variable._execution_engine.queue_callback(print)


def test_saved_variables_warns_and_gives_the_saved_tensors():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_variables
            return 2 * x * g

    x = gradhook.tensor(3.0, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        Square.apply(x).backward()
    assert x.grad.item() == 6.0


def test_the_switch_for_threads_holds_at_once_and_as_a_context_until_its_end():
    assert autograd.is_multithreading_enabled()
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
    assert autograd.is_multithreading_enabled()
    autograd.set_multithreading_enabled(False)
    assert not autograd.is_multithreading_enabled()
    autograd.set_multithreading_enabled(True)


def test_the_predicted_order_is_refused_only_under_compat_with_threads():
    x = gradhook.ones(2, requires_grad=True)
    orders = []
    x.register_hook(lambda g: orders.append(_C._current_graph_task_execution_order()))
    (2 * x).sum().backward()
    with gradhook.compat("torch"):
        with pytest.raises(RuntimeError, match="multithreading disabled"):
            (2 * x).sum().backward()
        with autograd.set_multithreading_enabled(False):
            (2 * x).sum().backward()
    assert len(orders) == 2
