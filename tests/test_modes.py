"""Grad modes: context managers and decorators, each thread's and task's own, restored always."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading

import pytest

import gradhook
from gradhook import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

MODES = {
    "no_grad": (no_grad, False),
    "enable_grad": (enable_grad, True),
    "set_grad_enabled(False)": (lambda: set_grad_enabled(False), False),
    "set_grad_enabled(True)": (lambda: set_grad_enabled(True), True),
    "inference_mode": (inference_mode, False),
}


@pytest.fixture(autouse=True)
def modes_are_as_they_were():
    yield
    assert is_grad_enabled() and not gradhook.is_inference_mode_enabled()


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


# ---- context managers


def test_a_mode_holds_inside_and_is_restored(mode):
    make, inside = mode
    for outer in (no_grad, enable_grad):
        with outer():
            before = is_grad_enabled()
            with make():
                assert is_grad_enabled() is inside
            assert is_grad_enabled() is before


def test_an_exception_restores_the_mode(mode):
    make, _ = mode
    for error in (ValueError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(error), make():
            raise error
        assert is_grad_enabled()


@pytest.mark.parametrize("make, inside", [(no_grad, False), (enable_grad, True)])
def test_one_context_object_nests_in_itself(make, inside):
    context = make()
    with context, no_grad(), context:
        assert is_grad_enabled() is inside
    assert is_grad_enabled()


def test_set_grad_enabled_holds_from_its_call_on():
    set_grad_enabled(False)
    try:
        assert not is_grad_enabled()
        with enable_grad():
            assert is_grad_enabled()
        assert not is_grad_enabled()
    finally:
        set_grad_enabled(True)


def test_operations_are_recorded_as_the_mode_says():
    x = gradhook.ones(2, requires_grad=True)
    with no_grad():
        y = x * 2
        made = gradhook.zeros(2, requires_grad=True)
        with enable_grad():
            z = x * 2
    assert not y.requires_grad and y.is_leaf and made.requires_grad and z.requires_grad


# ---- decorators


def test_a_decorated_function_runs_in_the_mode(mode):
    make, inside = mode

    @make()
    def asked(a, *, b):
        """Its docstring."""
        return a, b, is_grad_enabled()

    assert is_grad_enabled()
    assert asked(1, b=2) == (1, 2, inside)
    assert asked.__name__ == "asked" and asked.__doc__ == "Its docstring."


def test_no_grad_and_inference_mode_decorate_without_parentheses():
    for make in (no_grad, enable_grad, inference_mode):

        @make
        def asked():
            return is_grad_enabled()

        assert asked() is (make is enable_grad)


def test_a_decorated_function_may_call_itself_and_raise():
    @no_grad()
    def count(n):
        assert not is_grad_enabled()
        if n == 0:
            raise ValueError
        with enable_grad():
            count(n - 1)

    with pytest.raises(ValueError):
        count(3)


def test_a_decorated_method_and_lambda_work():
    class Holder:
        @no_grad()
        def asked(self):
            return self, is_grad_enabled()

    holder = Holder()
    assert holder.asked() == (holder, False)
    assert no_grad()(lambda: is_grad_enabled())() is False


# ---- generators


def test_a_decorated_generator_gives_its_caller_its_own_mode_at_each_yield(mode):
    make, inside = mode

    @make()
    def numbers():
        for k in range(3):
            assert is_grad_enabled() is inside
            yield k
        return "end"

    for outer in (no_grad, enable_grad):
        with outer():
            expected, generator = is_grad_enabled(), numbers()
            for k in range(3):
                assert next(generator) == k
                assert is_grad_enabled() is expected
            with pytest.raises(StopIteration) as stop:
                next(generator)
            assert stop.value.value == "end" and is_grad_enabled() is expected


def test_a_decorated_generator_takes_send_throw_and_close():
    log = []

    @no_grad()
    def body():
        try:
            got = yield "first"
            log.append((got, is_grad_enabled()))
            try:
                yield "second"
            except KeyError:
                log.append(("caught", is_grad_enabled()))
            yield "third"
        finally:
            log.append(("closed", is_grad_enabled()))

    generator = body()
    assert next(generator) == "first" and is_grad_enabled()
    assert generator.send(5) == "second" and is_grad_enabled()
    assert generator.throw(KeyError()) == "third" and is_grad_enabled()
    generator.close()
    assert is_grad_enabled()
    assert log == [(5, False), ("caught", False), ("closed", False)]


def test_an_error_of_a_decorated_generator_reaches_its_caller():
    @no_grad()
    def body():
        yield 1
        raise ValueError("inside")

    generator = body()
    next(generator)
    with pytest.raises(ValueError, match=r"inside"):
        next(generator)
    with pytest.raises(OSError, match=r"thrown"):
        fresh = body()
        next(fresh)
        fresh.throw(OSError("thrown"))


def test_a_mode_that_a_generators_body_enters_holds_over_its_yields_only_for_itself():
    @no_grad()
    def body():
        with enable_grad():
            yield is_grad_enabled()
        yield is_grad_enabled()

    generator = body()
    assert next(generator) is True and is_grad_enabled()
    with no_grad():
        assert next(generator) is False


# ---- coroutines, tasks, threads


def test_a_decorated_coroutine_runs_in_the_mode_also_after_an_await():
    @no_grad()
    async def asked():
        before = is_grad_enabled()
        await asyncio.sleep(0)
        return before, is_grad_enabled()

    async def main():
        found = await asked()
        return found, is_grad_enabled()

    assert asyncio.run(main()) == ((False, False), True)


def test_each_asyncio_task_has_its_own_mode():
    async def quiet(log):
        with no_grad():
            for _ in range(3):
                log.append(is_grad_enabled())
                await asyncio.sleep(0)

    async def loud(log):
        for _ in range(3):
            log.append(is_grad_enabled())
            await asyncio.sleep(0)

    async def main():
        first, second = [], []
        await asyncio.gather(quiet(first), loud(second))
        return first, second

    assert asyncio.run(main()) == ([False] * 3, [True] * 3)


def test_each_thread_has_its_own_mode():
    found = []
    with no_grad():
        thread = threading.Thread(target=lambda: found.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert found == [True]


# ---- inside a backward run


def test_hooks_run_without_recording_unless_create_graph():
    x, found = gradhook.ones(2, requires_grad=True), []
    x.register_hook(lambda g: found.append(is_grad_enabled()))
    with no_grad():
        pass
    (x * x).sum().backward()
    (x * x).sum().backward(create_graph=True)
    y = (x * x).sum()
    with no_grad():
        y.backward(create_graph=True)
    assert found == [False, True, True]


def test_backward_under_no_grad_gives_gradients():
    x = gradhook.ones(2, requires_grad=True)
    y = (x * 3).sum()
    with no_grad():
        y.backward()
    assert x.grad.tolist() == [3, 3]


# ---- inference mode

SAVED = "^Inference tensors cannot be saved for backward. To work around you can make a clone"


def test_inference_mode_can_be_switched_off_inside():
    with inference_mode():
        assert gradhook.is_inference_mode_enabled() and not is_grad_enabled()
        with inference_mode(False):
            assert is_grad_enabled() and not gradhook.is_inference_mode_enabled()
        with inference_mode(mode=True):
            assert not is_grad_enabled()


def test_tensors_made_in_inference_mode_are_inference_tensors():
    x = gradhook.ones(2, requires_grad=True)
    with inference_mode():
        b, view = x * 2, x.view(2)
        assert b.is_inference() and (b + b).is_inference()
        assert not x.is_inference() and not view.is_inference()
    assert not b.requires_grad and not b.clone().is_inference()


def test_tensors_created_in_inference_mode_are_inference_tensors():
    with inference_mode():
        made = [gradhook.ones(2), gradhook.tensor([1.0]), gradhook.arange(3), gradhook.rand(2)]
    assert all(t.is_inference() for t in made)


def test_an_inference_tensor_is_not_saved_for_backward():
    x = gradhook.ones(2, requires_grad=True)
    with inference_mode():
        a = gradhook.ones(2) * 1
    with pytest.raises(RuntimeError, match=SAVED):
        x * a
    (x + a).sum().backward()  # nothing of a is saved
    (x * a.clone()).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_an_inference_tensor_is_written_in_inference_mode_only():
    with inference_mode():
        a = gradhook.ones(2) * 1
        a.add_(1)
    with pytest.raises(
        RuntimeError, match=r"^Inplace update to inference tensor outside Inference"
    ):
        a.add_(1)
    with pytest.raises(
        RuntimeError, match=r"^Inplace update to inference tensor outside Inference"
    ):
        a[0] = 5
    assert a.tolist() == [2, 2]


def test_an_inference_tensor_cannot_require_grad_afterwards():
    with inference_mode():
        a = gradhook.ones(2) * 1
    with pytest.raises(
        RuntimeError, match=r"^Setting requires_grad=True on inference tensor outside"
    ):
        a.requires_grad_()


def test_a_normal_tensor_may_be_written_in_inference_mode_and_its_version_moves():
    x = gradhook.ones(2, requires_grad=True)
    y = x.exp()
    with inference_mode():
        y.zero_()
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        y.sum().backward()


# ---- what is refused


def test_a_class_is_not_decorated():
    with pytest.raises(TypeError, match=r"no_grad decorates functions, found class"):

        @no_grad()
        class Nothing:
            pass


def test_a_decorated_function_pickles_by_its_name():
    assert pickle.loads(pickle.dumps(decorated))() is False


@no_grad()
def decorated():
    return is_grad_enabled()


def test_modes_work_in_an_exit_stack():
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_grad())
        stack.enter_context(enable_grad())
        assert is_grad_enabled()


def test_a_tensor_made_in_inference_mode_may_require_grad_there():
    with gradhook.inference_mode():
        x = gradhook.ones(2).requires_grad_()
        assert x.requires_grad and x.is_inference()
    with pytest.raises(RuntimeError, match="on inference tensor outside InferenceMode"):
        gradhook.inference_mode()(lambda: gradhook.ones(2))().requires_grad_()
