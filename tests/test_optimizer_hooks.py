"""Optimizer hooks: order, arguments, results, subclasses, copies, global forms."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.hooks import HookTable
from gradhook.optim import optimizer as everywhere

STATE_KINDS = [
    "register_state_dict_pre_hook",
    "register_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_load_state_dict_post_hook",
]
ALL_KINDS = ["register_step_pre_hook", "register_step_post_hook", *STATE_KINDS]


def parameter():
    p = nn.Parameter(gradhook.ones(1))
    p.grad = gradhook.ones(1)
    return p


def sgd(**options):
    return optim.SGD([parameter()], lr=0.5, **options)


def value(opt):
    return opt.param_groups[0]["params"][0].item()


def use(opt):
    """Fire every kind of hook once."""
    opt.step()
    opt.load_state_dict(opt.state_dict())


@pytest.fixture
def log():
    return []


# ---- step


def test_step_runs_global_pre_own_pre_step_own_post_global_post(log):
    opt = sgd()

    def say(name):
        return lambda o, args, kwargs: log.append((name, o is opt, args[1:], kwargs, value(o)))

    opt.register_step_pre_hook(say("own pre"))
    opt.register_step_post_hook(say("own post"))
    closure = lambda: 3.0  # noqa: E731
    with (
        everywhere.register_optimizer_step_pre_hook(say("global pre")),
        everywhere.register_optimizer_step_post_hook(say("global post")),
    ):
        assert opt.step(closure) == 3.0
    assert log == [
        ("global pre", True, (closure,), {}, 1.0),
        ("own pre", True, (closure,), {}, 1.0),
        ("own post", True, (closure,), {}, 0.5),
        ("global post", True, (closure,), {}, 0.5),
    ]
    opt.remove_hooks()
    opt.step()
    assert len(log) == 4


def test_a_pre_hook_may_replace_the_arguments_for_all_that_follows(log):
    opt = sgd()
    opt.register_step_pre_hook(lambda o, args, kwargs: ((o,), {"closure": lambda: 7.0}))
    opt.register_step_pre_hook(lambda o, args, kwargs: log.append((len(args), list(kwargs))))
    opt.register_step_post_hook(lambda o, args, kwargs: log.append((len(args), list(kwargs))))
    assert opt.step(lambda: 3.0) == 7.0
    assert log == [(1, ["closure"])] * 2


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (lambda o: 5, "but got 5."),
        (lambda o: [(o,), {}], "but got ["),
        (lambda o: ((o,), {}, 1), ", 1)."),
        (lambda o: (o, {}), "but got a SGD and a dict; expected a tuple and a dict"),
        (lambda o: ((o,), None), "but got a tuple and a NoneType"),
        (lambda o: ((), {}), "that do not begin with the optimizer"),
        (lambda o: ((None,), {}), "that do not begin with the optimizer"),
    ],
)
def test_a_bad_result_of_a_step_pre_hook_names_the_hook_and_nothing_is_stepped(bad, found):
    opt = sgd()

    def clip(o, args, kwargs):
        return bad(o)

    opt.register_step_pre_hook(clip)
    with pytest.raises(RuntimeError) as error:
        opt.step()
    text = str(error.value)
    assert text.startswith("step pre-hook 'clip' of SGD must return None or a tuple of (new_args, ")
    assert found in text and value(opt) == 1


def test_post_hooks_do_not_run_after_a_step_that_raised_and_run_after_the_next(log):
    opt = sgd()
    opt.register_step_post_hook(lambda *args: log.append("post"))
    with pytest.raises(ZeroDivisionError):
        opt.step(lambda: 1 / 0)
    assert log == []
    opt.step()
    assert log == ["post"]


def test_a_subclass_that_calls_super_step_fires_its_hooks_once(log):
    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step()
            log.append("between")
            return super().step(closure)

    class Deeper(Twice):
        def step(self, closure=None):
            return super().step(closure)

    for kind in (Twice, Deeper):
        log.clear()
        opt = kind([parameter()], lr=0.25)
        opt.register_step_pre_hook(lambda *args: log.append("pre"))
        opt.register_step_post_hook(lambda *args: log.append("post"))
        with everywhere.register_optimizer_step_pre_hook(lambda *args: log.append("global")):
            opt.step()
        assert log == ["global", "pre", "between", "post"] and value(opt) == 0.5


def test_an_optimizer_within_another_s_step_fires_hooks_of_its_own(log):
    inner, outer = sgd(), sgd()
    for name, opt in (("inner", inner), ("outer", outer)):
        opt.register_step_pre_hook(lambda *args, name=name: log.append(name))
    outer.step(inner.step)
    assert log == ["outer", "inner"]


def test_a_step_that_comes_from_elsewhere_has_hooks_too(log):
    class Steps:
        def step(self, closure=None):
            log.append("step")

    class Mixed(Steps, optim.Optimizer):
        pass

    class Late(optim.Optimizer):
        pass

    Late.step = Steps.step
    for kind in (Mixed, Late):
        log.clear()
        opt = kind([parameter()], {})
        opt.register_step_pre_hook(lambda *args: log.append("pre"))
        opt.step()
        assert log == ["pre", "step"]


def test_the_step_of_an_optimizer_is_documented_and_marked_as_pytorch_s():
    assert "Change every parameter once" in optim.SGD.step.__doc__ and optim.SGD.step.hooked


# ---- state


def test_state_hooks_run_in_order_and_may_replace_the_state(log):
    opt = sgd()
    opt.register_state_dict_pre_hook(lambda o: log.append("pre"))
    opt.register_state_dict_post_hook(lambda o, sd: {**sd, "second": len(sd)})
    opt.register_state_dict_post_hook(lambda o, sd: {**sd, "first": len(sd)}, prepend=True)
    state = opt.state_dict()
    assert (log, state["first"], state["second"]) == (["pre"], 2, 3)
    opt.register_load_state_dict_pre_hook(lambda o, sd: log.append(sd is state))
    opt.register_load_state_dict_pre_hook(
        lambda o, sd: {**sd, "param_groups": [{**sd["param_groups"][0], "lr": 9.0}]}
    )
    opt.register_load_state_dict_post_hook(lambda o: log.append(o.param_groups[0]["lr"]))
    opt.load_state_dict(state)
    assert log == ["pre", False, 9.0] and state["param_groups"][0]["lr"] == 0.5


@pytest.mark.parametrize("register", STATE_KINDS)
def test_prepend_puts_a_state_hook_first(register, log):
    opt = sgd()
    add = getattr(opt, register)
    for name, prepend in (("a", False), ("b", True), ("c", False), ("d", True)):
        add(lambda *args, name=name: log.append(name), prepend=prepend)
    use(opt)
    assert log == ["d", "b", "a", "c"]


@pytest.mark.parametrize(
    "register", ["register_state_dict_post_hook", "register_load_state_dict_pre_hook"]
)
def test_a_state_hook_that_returns_no_dict_is_named_and_nothing_changes(register):
    def wrong(o, state):
        return 5

    opt = sgd()
    getattr(opt, register)(wrong)
    kind = "load_state_dict pre-hook" if "load" in register else "state_dict post-hook"
    with pytest.raises(TypeError, match=f"{kind} 'wrong' of SGD returned a int, expected a state"):
        opt.load_state_dict(opt.state_dict())


# ---- every kind


@pytest.mark.parametrize("register", ALL_KINDS)
def test_a_hook_may_remove_itself_and_register_others_while_its_kind_fires(register, log):
    opt = sgd()
    add = getattr(opt, register)

    def once(*args):
        log.append("once")
        handle.remove()
        add(lambda *args: log.append("new"))

    handle = add(once)
    add(lambda *args: log.append("last"))
    use(opt)
    assert log == ["once", "last"]
    use(opt)
    assert log == ["once", "last", "last", "new"]


@pytest.mark.parametrize("register", ALL_KINDS)
def test_an_error_in_a_hook_keeps_its_type_and_says_whose_hook_it_was(register):
    def fails(*args):
        raise ZeroDivisionError

    opt = sgd()
    getattr(opt, register)(fails)
    with pytest.raises(ZeroDivisionError) as error:
        use(opt)
    kind = register.removeprefix("register_").removesuffix("_hook")
    kind = kind.replace("step_", "step ").replace("dict_", "dict ")
    (note,) = error.value.__notes__
    assert note.startswith(f"in {kind}-hook 'fails' (registered at {__file__}:")
    assert note.endswith(") of optimizer <SGD>")


class Monitor:
    def __init__(self):
        self.fired = 0

    def note(self, *args):
        self.fired += 1


@pytest.mark.parametrize("register", ALL_KINDS)
def test_deepcopy_keeps_hooks_and_binds_methods_to_the_copy(register):
    opt, monitor = sgd(), Monitor()
    getattr(opt, register)(monitor.note)
    twin_monitor, twin = copy.deepcopy((monitor, opt))
    use(twin)
    assert (twin_monitor.fired, monitor.fired) == (1, 0)
    twin.remove_hooks()
    use(opt)
    assert (twin_monitor.fired, monitor.fired) == (1, 1)


def test_deepcopied_with_its_model_an_optimizer_steps_the_copied_parameters():
    net = nn.Linear(1, 1, bias=False)
    opt = optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    net.weight.grad = gradhook.ones(1, 1)
    opt.step()
    twin_net, twin = copy.deepcopy((net, opt))
    assert twin.param_groups[0]["params"][0] is twin_net.weight
    assert twin.state[twin_net.weight]["momentum_buffer"].tolist() == [[1.0]]


def test_pickle_leaves_hooks_behind(log):
    opt = sgd()
    for register in ALL_KINDS:
        getattr(opt, register)(lambda *args: log.append(1))
    twin = pickle.loads(pickle.dumps(opt))
    twin.step()
    assert log == [] and twin.hooks() == []


def test_the_global_tables_may_be_rebound(log):
    kept = everywhere._global_optimizer_pre_hooks
    everywhere._global_optimizer_pre_hooks = {-1: lambda *args: log.append("rebound")}
    try:
        assert isinstance(everywhere._global_optimizer_pre_hooks, HookTable)
        sgd().step()
    finally:
        everywhere._global_optimizer_pre_hooks = kept
    sgd().step()
    assert log == ["rebound"]
