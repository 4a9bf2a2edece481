"""A pickle machine for weights: the opcodes that files of weights have, and nothing that runs code.

Not pickle.Unpickler: its memo, its sets and its buffers take as much memory as a file cares to ask
for. Here a global is looked up in a table, only functions of the table are called, and what is made
is bounded by the size of the file. Source of the opcodes: Python's pickletools, protocols 2 to 5.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.values import Values

DICTS = (dict, OrderedDict, defaultdict, Counter)
FUNCTIONS = (type, type(np.dtype), MethodType)
CONTAINER = 56 + 16  # an empty one, its place on the stack and in the memo
ITEMS = 60  # bytes of a key or value in a dict, while it grows
Opcode = Callable[["WeightsMachine"], None]
OPCODES: list[Opcode | None] = [None] * 256
_MISSING = object()


def opcode(code: bytes) -> Callable[[Opcode], Opcode]:
    """Register what an opcode does."""

    def register(function: Opcode) -> Opcode:
        OPCODES[code[0]] = function
        return function

    return register


class WeightsMachine:
    """Reads one pickle.

    data: its bytes. named(module, name): the object of a global. calls: what may be called, each
    with the function that does it. persistent(id): the object of a persistent id.
    Errors: LoadError.
    """

    def __init__(
        self,
        data: bytes,
        values: Values,
        named: Callable[[str, str], Any],
        calls: dict[Any, Callable[..., Any]],
        persistent: Callable[[Any], Any],
        set_state: Callable[[Any, Any], None],
    ) -> None:
        self.data, self.at = data, 0
        self.values, self.budget = values, values.budget
        self.named, self.calls, self.persistent = named, calls, persistent
        self.set_state = set_state
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []

    def run(self) -> Any:
        """The object of the pickle."""
        data = self.data
        while self.at < len(data):
            code = data[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                if self.marks or len(self.stack) != 1:
                    raise LoadError("its pickle ends with open containers")
                return self.stack.pop()
            function = OPCODES[code]
            if function is None:
                raise LoadError(
                    f"its pickle has the opcode {bytes([code])!r} at byte {self.at - 1}, which no "
                    "file of weights has; it is damaged, or needs weights_only=False"
                )
            function(self)
        raise LoadError("its pickle is cut short")

    # ---- what opcodes share ----------------------------------------------------------------
    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.at + count
        if end > len(self.data):
            raise LoadError(f"its pickle is cut short: {count} bytes are named at byte {self.at}")
        found, self.at = self.data[self.at : end], end
        return found

    def number(self, form: str) -> int:
        """The next number, in struct's form."""
        found: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return found

    def text(self, count: int) -> str:
        """The next bytes as UTF-8."""
        try:
            return self.take(count).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise LoadError(f"its pickle has a damaged text before byte {self.at}") from None

    def line(self) -> str:
        """The text to the end of the line."""
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            raise LoadError(f"its pickle has a name without an end at byte {self.at}")
        found = self.text(end - self.at)
        self.at = end + 1
        return found

    def pop(self, count: int = 1) -> list[Any]:
        """The topmost objects, the lowest first."""
        if len(self.stack) < count:
            raise LoadError(f"its pickle takes objects that are not there, before byte {self.at}")
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    def pop_mark(self) -> list[Any]:
        """The objects above the last mark."""
        if not self.marks:
            raise LoadError(f"its pickle closes what it never opened, before byte {self.at}")
        found, self.stack = self.stack, self.marks.pop()
        return found

    def top(self, kinds: tuple[type, ...], what: str) -> Any:
        """The topmost object, of one of the classes."""
        if not self.stack or type(self.stack[-1]) not in kinds:
            raise LoadError(f"its pickle puts {what} into what is none, before byte {self.at}")
        return self.stack[-1]

    def push_container(self, made: Any, nbytes: int = CONTAINER) -> None:
        """Push what was made, charged to the budget."""
        self.budget.spend(nbytes)
        self.stack.append(made)

    def put(self, index: int) -> None:
        """Keep the topmost object in the memo."""
        if not self.stack or index > len(self.data):
            raise LoadError(f"its pickle notes object {index} of nothing, before byte {self.at}")
        if index >= len(self.memo):
            self.memo.extend([_MISSING] * (index + 1 - len(self.memo)))
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        """Push an object of the memo."""
        found = self.memo[index] if index < len(self.memo) else _MISSING
        if found is _MISSING:
            raise LoadError(f"its pickle asks for object {index}, which it never noted")
        self.stack.append(found)

    def set_items(self, items: list[Any]) -> None:
        """Put keys and values in turn into the dict on top."""
        target, key = self.top(DICTS, "items"), self.values.key
        if len(items) % 2:
            raise LoadError("its pickle has a key without a value")
        self.budget.spend(ITEMS * len(items))
        for i in range(0, len(items), 2):
            target[key(items[i])] = items[i + 1]

    def call(self, function: Any, args: Any) -> Any:
        """The result of a function of the table. Errors: LoadError for any other."""
        made = self.calls.get(function) if type(function) in FUNCTIONS else None
        if made is None:
            raise LoadError(f"its pickle calls {shown(function)}, which is no function")
        if type(args) is not tuple:
            raise LoadError(f"its pickle calls a function with {shown(args)}")
        try:
            return made(*args)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise LoadError(f"its pickle calls a function with wrong arguments: {error}") from None
