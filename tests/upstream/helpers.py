"""What the cut tests want beyond the shim: our own small versions of PyTorch's test helpers.

`imported` gives a test file its names: these helpers for torch.testing, the real thing elsewhere,
and for what is not there a `Missing`, which raises where a test uses it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import re
import unittest
import warnings
from types import SimpleNamespace
from typing import Any

import torch  # gradhook, through the shim
from torch.testing._internal import common_utils  # the shim's

MISSING = object()
TEST_CUDA = TEST_MULTIGPU = TEST_WITH_TORCHDYNAMO = IS_MACOS = IS_WINDOWS = False
parametrize = common_utils.parametrize
instantiate_parametrized_tests = common_utils.instantiate_parametrized_tests
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck


class Missing:
    """A name that gradhook does not have: using it is an ImportError that says so."""

    def __init__(self, module: str, name: str | None) -> None:
        self._what = f"{module}.{name}" if name else module

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise ImportError(f"there is no {self._what}")

    __call__ = __getattr__ = __mro_entries__ = __instancecheck__ = _raise


def imported(module: str, name: str | None = None) -> Any:
    """`from module import name`, or `import module`."""
    if module.startswith("torch.testing"):
        found = globals().get(name or "", MISSING)
        return Missing(module, name) if found is MISSING else found
    try:
        whole = importlib.import_module(module)
        return whole if name is None else getattr(whole, name)
    except (ImportError, AttributeError):
        with contextlib.suppress(
            ImportError
        ):  # a module, asked for as `from package import module`
            return importlib.import_module(f"{module}.{name}")
        return Missing(module, name)


class DelayedError(torch.autograd.Function):
    """The identity; its backward raises RuntimeError. PyTorch's tests have it from C++."""

    @staticmethod
    def forward(ctx: Any, x: Any, message: str) -> Any:
        ctx.message = message
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise RuntimeError(ctx.message)


class Resize(torch.autograd.Function):
    """x in another shape, by a custom Function, which is what the tests are about."""

    @staticmethod
    def forward(ctx: Any, x: Any, sizes: Any) -> Any:
        ctx.shape = x.shape
        return x.reshape(sizes).clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.reshape(ctx.shape), None


if not hasattr(torch._C, "_functions"):  # test material of PyTorch's, no facility
    torch._C._functions = SimpleNamespace(
        DelayedError=lambda message, n: lambda x: DelayedError.apply(x, message)
    )
if not hasattr(torch.autograd, "_functions"):
    torch.autograd._functions = SimpleNamespace(Resize=Resize)


def unchanged(*args: Any, **_: Any) -> Any:
    """A decorator, with or without arguments, that leaves the test as it is."""
    return args[0] if len(args) == 1 and callable(args[0]) else unchanged


skipIfCrossRef = skipIfTorchDynamo = xfailIfTorchDynamo = markDynamoStrictTest = xfailIfS390X = (
    unchanged
)
skipIfMPS = skipMPS = skipIfWindows = skipMeta = slowTest = skipIfNoLapack = unchanged
dtypesIfMPS = dtypesIfCUDA = largeTensorTest = onlyCPU = onlyNativeDeviceTypes = unchanged
tf32_on_and_off = unchanged


onlyCUDA = unittest.skip("needs CUDA")
scoped_load_inline = unittest.skip("compiles C++ code against libtorch")


class TestCase(common_utils.TestCase):
    """The shim's, with the assertions about warnings."""

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: type[Warning], regex: str = "") -> Any:
        """The block gives a warning of the category that matches, even if it was given before."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        fits = [w for w in caught if issubclass(w.category, category)]
        self.assertTrue(any(re.match(regex, str(w.message)) for w in fits), [*map(str, caught)])

    def assertNotWarn(self, function: Any, message: str = "") -> None:
        """The call gives no warning."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
        self.assertFalse(caught, message)

    def assertExpectedInline(self, found: Any, expected: str, skip: int = 0) -> None:
        """The text is the one in the test."""
        self.assertEqual(str(found), expected)


NNTestCase = TestCase
TEST_NUMPY = True
run_tests = unittest.main
swap = common_utils.swap


@contextlib.contextmanager
def disable_gc() -> Any:
    """Nothing within is freed by the cyclic collector."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def set_warn_always_context(value: bool) -> Any:
    """PyTorch's C++ warnings come once unless asked; Python's filters decide here."""
    yield


@contextlib.contextmanager
def freeze_rng_state() -> Any:
    """The random state afterwards is the one before."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def optimizers() -> list[SimpleNamespace]:
    """PyTorch's optim_db, of the optimizers there are: each with options of several kinds."""
    options: list[dict[str, Any]] = [{}, {"lr": 0.01}, {"weight_decay": 0.1}, {"maximize": True}]
    kinds = [getattr(torch.optim, name, None) for name in ("SGD", "Adam", "AdamW")]
    return [
        SimpleNamespace(
            optim_cls=kind,
            name=kind.__name__,
            step_requires_closure=False,
            inputs=[SimpleNamespace(kwargs=x, params=None, desc="") for x in options],
        )
        for kind in kinds
        if kind is not None
    ]


optim_db = optimizers()


def _get_optim_inputs_including_global_cliquey_kwargs(
    device: Any, dtype: Any, optim_info: Any, skip: Any = ()
) -> Any:
    """The options that a test of one optimizer goes through."""
    return optim_info.inputs


def variants(name: str, values: Any) -> Any:
    """A decorator: the test runs once a value, handed to it as keyword argument `name`."""

    def decorate(test: Any) -> Any:
        test.__dict__.setdefault("_variants", []).append((name, values))
        return test

    return decorate


def dtypes(*values: Any) -> Any:
    """PyTorch's decorator: the test runs once a dtype."""
    return variants("dtype", values)


def optims(infos: Any, dtypes: Any = None) -> Any:
    """PyTorch's decorator: the test runs once an optimizer and dtype."""

    def decorate(test: Any) -> Any:
        return variants("dtype", dtypes or [torch.float32])(variants("optim_info", infos)(test))

    return decorate


def instantiate_device_type_tests(case: type, scope: dict[str, Any], **_: Any) -> None:
    """Make of a class its version for the CPU: each test with device="cpu" and its variants."""
    made = type(case.__name__ + "CPU", (case,), {"device_type": "cpu"})
    for name, test in vars(case).items():
        if not name.startswith("test"):
            continue
        choices: list[dict[str, Any]] = [{"device": "cpu"}]
        for argument, values in getattr(test, "_variants", ()):
            choices = [{**x, argument: value} for x in choices for value in values]
        setattr(made, name, None)
        for choice in choices:
            names = [str(getattr(x, "name", x)).split(".")[-1] for x in choice.values()]
            setattr(made, "_".join([name, *names]), bound(test, choice))
    del scope[case.__name__]
    scope[made.__name__] = made


def bound(test: Any, choice: dict[str, Any]) -> Any:
    """A test method with its arguments."""

    def run(self: Any) -> Any:
        return test(self, **{k: v for k, v in choice.items() if k in wanted})

    wanted = inspect.signature(test).parameters
    run.__dict__.update({k: v for k, v in vars(test).items() if k != "_variants"})
    return run
