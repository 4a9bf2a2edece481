"""Module calls: which call of which module a hook fires for.

A call is one object from its first forward-pre hook to its last backward hook. Calls that fire no
hook have none; the outermost of them is found on the stack the first time and followed from then
on, so that calls of one module within one forward of the model can be told apart.
"""

from __future__ import annotations

import sys
import weakref
from contextvars import ContextVar
from threading import get_ident
from types import FrameType
from typing import Any

FULL, FORWARD, OTHER = 1, 2, 4
"""Bits of a module's _hook_kinds, which tables of hooks it ever had: full backward hooks and
pre-hooks, forward hooks, anything else. With only one of the first two bits, and no options among
the hooks, a call takes a short way."""


class TopCall:
    """The outermost module call in progress. root: its module; ids: the id of each module called
    with hooks since it began, in order; open: whether it is still running.
    """

    __slots__ = ("ids", "open", "root")

    root: weakref.ref[Any]
    ids: list[int]
    open: bool

    def __init__(self, root: Any) -> None:
        self.root = weakref.ref(root)
        self.ids = []
        self.open = True


class Call:
    """One call of a module. module: that module; top: the outermost call around it; position:
    calls with hooks that began before it since then; kept: what keep_io asked for.
    """

    __slots__ = ("__weakref__", "kept", "module", "position", "top")

    module: Any
    top: TopCall
    position: int
    kept: dict[str, Any]

    @property
    def index(self) -> int:
        """Which call of its module this is since the outermost call began; the first is 0."""
        return self.top.ids[: self.position].count(id(self.module))

    @property
    def name(self) -> str:
        """The module's dotted name within the outermost module; "" for that one itself, and for a
        module that is not registered there.
        """
        root = self.top.root()
        for name, module in () if root is None else root.named_modules():
            if module is self.module:
                return str(name)
        return ""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments, after forward-pre hooks, their tensors detached. RuntimeError
        unless a hook of the module was registered with keep_io=True.
        """
        return self._kept("args")  # type: ignore[no-any-return]

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments, as `args`."""
        return self._kept("kwargs")  # type: ignore[no-any-return]

    @property
    def output(self) -> Any:
        """What the call returned, its tensors detached; None before forward returned. Errors as
        `args`.
        """
        return self._kept("output")

    def _kept(self, what: str) -> Any:
        kept = getattr(self, "kept", None)
        if kept is None:
            raise RuntimeError(
                f"the {what} of this call of {self.title} were not kept; register the hook with "
                "keep_io=True"
            )
        return kept.get(what)

    @property
    def title(self) -> str:
        """The module as messages name it: 'encoder.fc' <Linear>."""
        name, kind = self.name, type(self.module).__name__
        return f"'{name}' <{kind}>" if name else f"<{kind}>"


class Here:
    """One thread's innermost call with hooks: in progress, or whose backward hooks run.

    A call begins and ends on one thread without a pause between, so nothing else can come between.
    thread: its identifier; first: the outermost call and the id of its frame while it is not
    followed yet.
    """

    __slots__ = ("call", "first", "thread")

    call: Call | None
    first: tuple[int, TopCall] | None

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.call = self.first = None


# A context variable costs a fifth of a threading.local; as a context can be copied to another
# thread, whoever gets a Here compares its thread with get_ident().
_here: ContextVar[Here] = ContextVar(
    "gradhook_module_call",
    default=Here(-1),  # noqa: B039 - never written
)
get_here = _here.get


def new_here() -> Here:
    """A Here of the calling thread, which has none yet."""
    here = Here(get_ident())
    _here.set(here)
    return here


def current_call() -> Call | None:
    """The module call whose hook this code runs in, forward or backward; None outside of one.

    `.module`, `.name` (dotted, within the outermost module called), `.index` (0 for the first call
    of the module in that forward, 1 for the second, ...), and with keep_io=True at registration
    `.args`, `.kwargs`, `.output`. A call's hooks, forward and backward, get the same object. Has
    no PyTorch counterpart.
    """
    here = get_here()
    return here.call if here.thread == get_ident() else None


def outermost(module: Any, is_call: Any) -> TopCall:
    """The outermost call round one of `module` that begins now, with no call in progress that is
    followed. is_call: the code object of Module.__call__, whose `self` is the module.
    """
    frame: FrameType | None = sys._getframe(1)
    calls = []
    while frame is not None:
        if frame.f_code is is_call:
            calls.append(frame)
        frame = frame.f_back
    if len(calls) < 2:  # only the call itself
        return TopCall(module)
    here = get_here()
    number, root = id(calls[-1]), calls[-1].f_locals["self"]
    root.__dict__["_hook_kinds"] = OTHER  # followed from its next call on
    if here.first is None or here.first[0] != number or here.first[1].root() is not root:
        here.first = (number, TopCall(root))
        here.first[1].open = False
    return here.first[1]
