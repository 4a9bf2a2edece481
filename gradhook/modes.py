"""Grad modes: one immutable `Modes` value in one ContextVar, set and restored by hand, in
`finally`.

Source: PyTorch's `torch.no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`
(thread-local there; a ContextVar here, so that asyncio tasks and threads have their own).
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from gradhook.hooks.everywhere import everywhere

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Modes:
    """What a recorder asks for: grad (record nodes), inference (tensors made now are inference
    tensors), watch (what else happens to a recorded node: autograd/watch.py; None: nothing),
    saved_hooks_refused (why saved_tensors_hooks may not be entered; None: they may),
    compat (PyTorch's refusals and quirks, read when a module call records its hooks and when a
    backward run starts).
    """

    grad: bool = True
    inference: bool = False
    watch: Any = None
    saved_hooks_refused: str | None = None
    compat: bool = False


PLAIN = Modes()
NO_GRAD = Modes(grad=False)


def compat_named(name: str | None) -> bool:
    """Whether a name asks for PyTorch's quirks: "torch" does, None and "" do not; else
    ValueError.
    """
    if name not in ("torch", "", None):
        raise ValueError(f"compat: found {name!r}, expected 'torch' or None")
    return bool(name)


_modes: ContextVar[Modes] = ContextVar(
    "gradhook_modes",
    default=Modes(compat=True) if compat_named(os.getenv("GRADHOOK_COMPAT")) else PLAIN,
)
get_modes = _modes.get
everywhere.see_compat(get_modes().compat)
set_modes = _modes.set


def is_grad_enabled() -> bool:
    """Whether operations are recorded here and now."""
    return get_modes().grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on here and now."""
    return get_modes().inference


def with_grad(modes: Modes, grad: bool) -> Modes:
    """`modes` with recording on or off."""
    if modes is PLAIN or modes is NO_GRAD:
        return PLAIN if grad else NO_GRAD
    if modes.grad is grad:
        return modes
    return Modes(grad, modes.inference, modes.watch, modes.saved_hooks_refused, modes.compat)


class ModeContext:
    """A context manager and decorator (of functions, generators and coroutines) that changes the
    modes within.

    A decorated generator has the mode while its body runs, and its caller's mode at every yield.
    """

    def __init__(self) -> None:
        self._outer: list[Modes] = []

    def change(self, modes: Modes) -> Modes:
        """The modes inside, given those outside."""
        raise NotImplementedError(f"{type(self).__name__} must say what it changes")

    def __enter__(self) -> Self:
        outer = get_modes()
        self._outer.append(outer)
        set_modes(self.change(outer))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        set_modes(self._outer.pop())

    def clone(self) -> ModeContext:
        """A fresh context of the same mode, one for each decorated call."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            raise TypeError(
                f"{type(self).__name__} decorates functions, found class {function.__qualname__}"
            )
        if inspect.isgeneratorfunction(function):
            return cast(F, functools.wraps(function)(functools.partial(self._drive, function)))
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    return await function(*args, **kwargs)

            return cast(F, coroutine)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return cast(F, wrapper)

    def _drive(
        self, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        send, value = generator.send, None
        try:
            while True:
                try:
                    with self.clone():
                        item = send(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    send, value = generator.send, (yield item)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    send, value = generator.throw, error
        finally:
            with self.clone():
                generator.close()


class no_grad(ModeContext):
    """Operations inside are not recorded. As `torch.no_grad`; also a decorator, with or without
    parentheses.
    """

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]
        return self(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__()

    def change(self, modes: Modes) -> Modes:
        return with_grad(modes, False)


class enable_grad(no_grad):
    """Operations inside are recorded, also within `no_grad`. As `torch.enable_grad`."""

    def change(self, modes: Modes) -> Modes:
        return with_grad(modes, True) if not modes.inference else modes


class set_grad_enabled(ModeContext):
    """Set recording on or off at once; as a context manager, until its end. As
    `torch.set_grad_enabled`.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._before: Modes | None = get_modes()
        set_modes(self.change(self._before))

    def change(self, modes: Modes) -> Modes:
        return with_grad(modes, self.mode)

    def __enter__(self) -> Self:
        before, self._before = self._before, None
        self._outer.append(get_modes() if before is None else before)
        set_modes(self.change(self._outer[-1]))
        return self

    def __call__(self, function: F) -> F:
        if self._before is not None:
            set_modes(self._before)
            self._before = None
        return super().__call__(function)

    def clone(self) -> ModeContext:
        fresh = type(self).__new__(type(self))
        ModeContext.__init__(fresh)
        fresh.mode, fresh._before = self.mode, None
        return fresh


class inference_mode(ModeContext):
    """No recording, and tensors made inside have no version: they can't be saved for backward
    later.

    As `torch.inference_mode(mode=True)`.
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        self.__init__()  # type: ignore[misc]
        return self(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode

    def change(self, modes: Modes) -> Modes:
        return (
            replace(modes, grad=False, inference=True)
            if self.mode
            else replace(modes, grad=True, inference=False)
        )

    def clone(self) -> ModeContext:
        return type(self)(self.mode)


class compat(ModeContext):
    """`with gradhook.compat("torch"):` brings back PyTorch's refusals and quirks where gradhook
    goes beyond (docs/deviations.md says which); also a decorator. None: gradhook's own rules, also
    within. The environment variable GRADHOOK_COMPAT=torch does so for a whole process.

    It counts for module calls and backward runs that start inside. Errors: ValueError for another
    name.
    """

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name = name
        self.on = compat_named(name)
        everywhere.see_compat(self.on)

    def change(self, modes: Modes) -> Modes:
        changed = replace(modes, compat=self.on)
        return next((m for m in (PLAIN, NO_GRAD) if m == changed), changed)

    def clone(self) -> ModeContext:
        return type(self)(self.name)
