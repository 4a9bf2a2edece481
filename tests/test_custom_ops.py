"""register_op: a user's op is a row of the table, and has what a built-in one has."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest
from registering import F64, leaf, nothing_stays_registered, square, square_op

import gradhook
from gradhook import autograd, profiler, register_op
from gradhook.autograd import record
from gradhook.autograd.gradcheck import gradcheck, gradgradcheck
from gradhook.ops.table import TABLE


@pytest.fixture(autouse=True)
def _alone():
    with nothing_stays_registered():
        yield


def test_an_op_is_a_function_with_the_forwards_signature_and_docstring():
    op = register_op(
        "my_scale", lambda xp, x, y=None, *, by=2.0, how="a": x * by, {"x": None, "y": None}
    )
    assert str(op.__signature__) == "(x, y=None, *, by=2.0, how='a')"
    assert repr(op) == "<op my_scale(x, y=None, *, by=2.0, how='a')>"
    assert "my_scale" in op.__doc__
    assert square_op().__doc__ == square.__doc__
    assert op(gradhook.tensor([1.0]), by=3.0).tolist() == [3.0]


def test_it_is_a_row_of_the_one_table_and_formulas_reach_it():
    op = square_op()
    fourth = register_op(
        "my_fourth", lambda xp, x: x**4, {"x": lambda xp, g, x: 4 * g * xp.my_square(x) * x}
    )
    assert TABLE["my_square"].torch == "my_square(x)"
    x = leaf([1.5, -2.0])
    assert gradcheck(fourth, x) and gradgradcheck(fourth, x)
    assert record.ops.my_square(x).tolist() == op(x).tolist()


def test_derivatives_of_any_order_come_from_one_formula():
    op, x = square_op(), leaf([3.0])
    (g,) = autograd.grad(op(op(x)), x, create_graph=True)
    (h,) = autograd.grad(g, x, create_graph=True)
    (third,) = autograd.grad(h, x)
    assert (g.item(), h.item(), third.item()) == (108, 108, 72)


def test_methods_and_in_place_forms_come_on_demand():
    op = square_op(method=True, inplace=True)
    x = leaf([2.0])
    y = x * 1
    assert y.my_square_() is y and y.tolist() == [4.0]
    y.my_square().backward()
    assert x.grad.tolist() == [32.0]
    op.remove()
    assert not hasattr(x, "my_square") and not hasattr(x, "my_square_")


def test_a_value_overwritten_after_it_was_saved_is_an_error_that_names_the_op():
    x = leaf([2.0]) * 1
    y = square_op()(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        y.backward()
    assert "MySquareBackward0" in str(error.value)


def test_saved_tensor_hooks_see_what_the_formula_names_and_nothing_else():
    packed = []
    x, y = leaf([2.0]), leaf([3.0])
    both = register_op(
        "my_product",
        lambda xp, x, y, *, by=1.0: x * y * by,
        {"x": lambda xp, g, y, by: g * y * by, "y": lambda xp, g, x, by: g * x * by},
    )
    with autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t, lambda t: t):
        both(x, y.detach())
        assert packed == [[3.0]]
        z = both(x, y, by=2.0)
    assert packed == [[3.0], [3.0], [2.0]]
    z.backward()
    assert (x.grad.item(), y.grad.item()) == (6.0, 4.0)


def test_hooks_fire_on_its_tensors_its_node_and_modules_round_it():
    op, seen = square_op(), []

    class Layer(gradhook.nn.Module):
        def forward(self, x):
            return op(x)

    layer, x = Layer(), leaf([3.0])
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].item(), go[0].item())))
    x.register_hook(lambda g: g + 1)
    y = op(layer(x))
    y.grad_fn.register_hook(lambda gi, go: seen.append("node"))
    y.backward()
    assert seen == ["node", (108.0, 18.0)] and x.grad.item() == 109


def test_a_broadcast_input_gets_a_gradient_of_its_shape_and_dtype():
    add = register_op(
        "my_add",
        lambda xp, x, y: x + y,
        {"x": lambda xp, g: g, "y": lambda xp, g: g},
        promote="arith",
    )
    x, y = leaf(np.zeros((2, 3))), leaf([1.0], gradhook.float32)
    add(x, y).sum().backward()
    assert y.grad.tolist() == [6.0] and y.grad.dtype == gradhook.float32
    assert add(x, 2).tolist() == [[2.0] * 3] * 2


def test_complex_gradients_are_those_of_a_holomorphic_function():
    op = square_op()
    z = leaf([1 + 2j, -0.5j], gradhook.complex128)
    assert gradcheck(op, z) and gradgradcheck(op, z)


def test_several_outputs_and_joint_formulas():
    op = register_op(
        "my_pair",
        lambda xp, x, y: (x * y, x - y, xp.sign(x)),
        {("x", "y"): lambda xp, g0, g1, x, y: (g0 * y + g1, g0 * x - g1)},
        n_outputs=3,
        differentiable=(0, 1),
    )
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    assert gradcheck(lambda a, b: op(a, b)[:2], (x, y))
    assert gradgradcheck(lambda a, b: op(a, b)[:2], (x, y))
    assert not op(x, y)[2].requires_grad


def test_a_variadic_and_an_optional_input():
    total = register_op(
        "my_total",
        lambda xp, *xs: sum(xs[1:], xs[0] * 1),
        {"xs": lambda xp, g, xs: tuple(g for x in xs)},
    )
    scaled = register_op(
        "my_scaled",
        lambda xp, x, by=None: x * (2.0 if by is None else by),
        {
            "x": lambda xp, g, by: 2.0 * g if by is None else g * by,
            "by": lambda xp, g, x: g * x,
        },
    )
    x, y = leaf([2.0]), leaf([3.0])
    assert gradcheck(total, (x, y, leaf([4.0])))
    assert gradcheck(scaled, (x, y)) and gradcheck(scaled, x)


def test_a_graph_recorded_before_the_removal_still_runs_backward():
    op, x = square_op(gradient_kernels={"x": lambda g, x: 2 * g * x}), leaf([3.0])
    y = op(x)
    op.remove()
    y.backward()
    assert x.grad.item() == 6


def test_what_was_generated_for_a_removed_op_is_released():
    op = square_op()
    op(leaf([1.0])).backward()
    row = weakref.ref(record.plan_of(TABLE["my_square"]))
    op.remove()
    del op
    gc.collect()
    assert row() is None


def test_a_recorder_that_outlives_its_op_can_still_be_written_anew():
    op = square_op()
    recorder, x = record.ops.my_square, leaf([3.0])
    op.remove()
    record._rewrite()  # as when a device, or what watches nodes, comes into use
    recorder(x).backward()
    assert x.grad.item() == 6


def test_the_handle_removes_the_op_at_the_end_of_a_block():
    with square_op() as op:
        assert op.is_registered()
    assert "my_square" not in TABLE and "removed" in repr(op)


def test_an_op_pickles_by_its_name():
    op = square_op()
    text = pickle.dumps(op)
    assert pickle.loads(text) is op
    op.remove()
    with pytest.raises(KeyError, match="no op 'my_square' is registered in this process"):
        pickle.loads(text)


def test_as_a_decorator_the_forward_becomes_the_op():
    @register_op("my_double", gradients={"x": lambda xp, g: 2 * g}, method=True)
    def my_double(xp, x):
        """Twice x."""
        return 2 * x

    x = leaf([1.0])
    x.my_double().backward()
    assert my_double(x).item() == 2 and x.grad.item() == 2 and my_double.__doc__ == "Twice x."


def counting(calls, name, function):
    def kernel(*args):
        calls.append((name, *[a for a in args if isinstance(a, float | str)]))
        return function(*args)

    return kernel


def test_kernels_serve_cuda_arrays_only_and_formulas_what_is_recorded():
    calls = []
    op = register_op(
        "my_cube",
        lambda xp, x, *, by=1.0, how="exact": by * x**3,
        {"x": lambda xp, g, x, by: 3 * by * g * x * x},
        kernel=counting(calls, "forward", lambda x, by, how: by * x**3),
        gradient_kernels={"x": counting(calls, "gradient", lambda g, x, by: 3 * by * g * x * x)},
    )
    x = leaf([2.0])
    op(x, by=2.0).backward()
    assert x.grad.item() == 24
    assert calls == ([("forward", 2.0, "exact"), ("gradient", 2.0)] if x.is_cuda else [])
    calls.clear()
    autograd.grad(op(x), x, create_graph=True)
    assert [name for name, *_ in calls] == (["forward"] if x.is_cuda else [])


def test_a_kernel_that_takes_not_this_leaves_it_to_the_forward_and_the_formula():
    op = square_op(
        kernel=lambda x: NotImplemented, gradient_kernels={"x": lambda g, x: NotImplemented}
    )
    x = leaf([3.0])
    op(x).backward()
    assert op(x).item() == 9 and x.grad.item() == 6


def test_a_kernel_that_returns_its_input_or_a_wrong_shape_is_an_error():
    x = leaf([3.0, 4.0])
    if not x.is_cuda:
        pytest.skip("kernels run on CUDA arrays: pytest --device cuda")
    with square_op(kernel=lambda x: x) as op:
        with pytest.raises(RuntimeError, match="the kernel of my_square returned an input"):
            op(x)
    with square_op(gradient_kernels={"x": lambda g, x: (g * x)[:, None]}) as op:
        with pytest.raises(RuntimeError, match=r"shape \(2, 1\), expected \(2,\)"):
            op(x).sum().backward()


def test_raw_kernels_refuse_what_their_code_cannot_see():
    cuda = gradhook.cuda
    code = 'extern "C" __global__ void twice(double* x) { x[threadIdx.x] *= 2; }'
    twice = cuda.RawKernel(code, "twice")
    assert "twice" in repr(twice)
    if not cuda.is_available():
        with pytest.raises(gradhook.backend.DeviceError, match="CUDA was asked for"):
            twice((1,), (4,), ())
        with pytest.raises(gradhook.backend.DeviceError, match="CUDA was asked for"):
            cuda.ElementwiseKernel("T x", "T y", "y = x", "same")(1)
        return
    a = gradhook.zeros(4, 2, dtype=F64, device="cuda")._a + 1
    with pytest.raises(ValueError, match="'twice': argument 0 is an array of shape"):
        twice((1,), (4,), (a[:, 0],))
    with profiler.launches() as launches:
        twice((0,), (4,), (a,))
        twice((1,), (4,), (a,))
    assert a.get().tolist() == [[2, 2]] * 2 + [[1, 1]] * 2
    assert [(e.name, e.nbytes) for e in launches.events] == [("twice", 64)]


def test_a_users_op_makes_no_transfer_and_waits_for_nothing(request):
    x = leaf([1.0, 2.0])
    if not x.is_cuda:
        pytest.skip("about a device: pytest --device cuda")
    counters = request.getfixturevalue("device_counters")
    op = square_op()
    op(x).sum().backward()
    before = counters()["d2h"], counters()["syncs"]
    op(x).sum().backward()
    assert (counters()["d2h"], counters()["syncs"]) == before
