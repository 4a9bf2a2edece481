"""What is left out, one at a time: found in the source by its names, and a few listed by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

# Calls that order work. As a statement one is left out whole.
ORDERING = {
    "deliver", "deliver_all", "deviceSynchronize", "finish", "hold", "record", "release_done",
    "_switch", "synchronize", "use", "wait", "wait_event", "wait_stream",
}  # fmt: skip
RECORDS = {"record", "record_event"}  # within an expression: an event that marks nothing
QUESTIONS = {"query", "done"}  # whether something is over: always yes
PLACES = {
    "module.cuda.Device",
    "array.device",
    "self.place",
    "source",
    "stream.place",
}  # `with` one: stay on the current device
NOWHERE = '__import__("contextlib").nullcontext()'
FILES = {
    "gradhook/streams.py": "Event()",
    "gradhook/autograd/node_streams.py": "Event()",
    "gradhook/autograd/host_hooks.py": "Event()",
    "gradhook/autograd/graph_task.py": "Event()",
    "gradhook/autograd/engine.py": "Event()",
    "gradhook/cuda.py": "Event()",
    "gradhook/backend.py": "module.cuda.Event()",
}
"""Where, and how an event that marks nothing is written there."""


class Mutation(NamedTuple):
    """One change: file, from ROOT; line of the text; the text and what takes its place; why."""

    file: str
    line: int
    old: str
    new: str
    why: str
    start: int  # in the file's bytes

    def text(self) -> str:
        """The file's whole text with the change made."""
        source = (ROOT / self.file).read_bytes()
        end = self.start + len(self.old.encode())
        return (source[: self.start] + self.new.encode() + source[end:]).decode()


LISTED = [
    (
        "gradhook/autograd/node_streams.py",
        "        node.hook_set().stream = Stream.over(stream, backend.device_of(array))\n",
        "",
        "a node keeps its stream",
    ),
    (
        "gradhook/autograd/node_streams.py",
        "self.arrivals.setdefault(following, []).append((source, events[source]))",
        "pass",
        "the next node is told what to wait for",
    ),
    (
        "gradhook/autograd/node_streams.py",
        "self.conformed = self.conformed or found[k] is not h",
        "pass",
        "a gradient that was conformed is not the formula's own",
    ),
    (
        "gradhook/autograd/node_streams.py",
        "following.follows or self.stream_for",
        "self.stream_for",
        "a barrier runs where its gradient was made",
    ),
    (
        "gradhook/autograd/node_streams.py",
        "self.crossed or not stream.is_default",
        "not stream.is_default",
        "what came from another stream is kept",
    ),
    (
        "gradhook/autograd/node_streams.py",
        "self.crossed or not stream.is_default",
        "self.crossed",
        "what a side stream uses is kept",
    ),
    (
        "gradhook/autograd/engine.py",
        "    if task.streams is not None:  # summed on the stream",
        "    if False:  # summed on the stream",
        "a sum waits until its node runs",
    ),
    (
        "gradhook/autograd/engine.py",
        "special = asked != (None, None, None)",
        "special = asked[1:] != (None, None)",
        "with streams every node is visited",
    ),
    (
        "gradhook/streams.py",
        "array.copy() if snapshot else module.ascontiguousarray(array)",
        "module.ascontiguousarray(array)",
        "a later write does not reach the copy",
    ),
    (
        "gradhook/streams.py",
        "    owner.streams.add(stream)\n",
        "    owner.streams = {stream}\n",
        "an array is kept for every stream",
    ),
    (
        "gradhook/streams.py",
        "        return guarded(self._array, stream) if self._array.nbytes else self._array",
        "        return self._array",
        "an upload's memory is kept for the stream that took it",
    ),
    (
        "gradhook/streams.py",
        "        with side:\n            self._array",
        "        with side.place:\n            self._array",
        "an upload lies in memory of the side stream",
    ),
    (
        "gradhook/storage.py",
        "copy.result()",
        "copy._array",
        "the copy under way is waited for",
    ),
    (
        "gradhook/storage.py",
        "self._host = self._copy = None",
        "self._copy = None",
        "a write drops the host copy",
    ),
    (
        "gradhook/storage.py",
        "self._host = self._copy = None",
        "self._host = None",
        "a write drops the copy under way",
    ),
    (
        "gradhook/autograd/api.py",
        "        key = (*key, backend.stream_key())\n",
        "        pass\n",
        "the first gradient is made for each stream",
    ),
    (
        "gradhook/autograd/operands.py",
        "        key = (*key, backend.stream_key())\n",
        "        pass\n",
        "a number is made for each stream",
    ),
]
"""(file, text, what takes its place, what it is for). The text occurs once in the file."""


def _called(node: ast.AST) -> str | None:
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def _changes(tree: ast.AST, nothing: str) -> Iterator[tuple[ast.expr, str, str]]:
    """(what is replaced, by what, why), of everything that the names find."""
    statements = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _called(node.value) in ORDERING:
            statements.add(node.value)
            yield node.value, "pass", "ordering"
    for node in ast.walk(tree):
        if node in statements:
            continue
        if _called(node) in RECORDS:
            yield node, nothing, "record"
        elif _called(node) in QUESTIONS:
            yield node, "True", "question"
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "self.cupy.done":
            yield node, "True", "question"
        elif isinstance(node, ast.With):
            place = node.items[0].context_expr
            words = ast.unparse(place.func if isinstance(place, ast.Call) else place)
            if words in PLACES:
                yield place, NOWHERE, "place"


def found(file: str) -> list[Mutation]:
    """The mutations of one file that its names tell, in the order of its lines."""
    source = (ROOT / file).read_text("utf-8")
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    made = []
    for node, new, why in _changes(ast.parse(source), FILES[file]):
        old = ast.get_source_segment(source, node)
        start = offsets[node.lineno - 1] + node.col_offset
        made.append(Mutation(file, node.lineno, old, new, why, start))
    return sorted(made, key=lambda m: m.start)


def listed() -> list[Mutation]:
    """The mutations that are listed by hand. LookupError for a text that is not there once."""
    made = []
    for file, old, new, why in LISTED:
        source = (ROOT / file).read_text("utf-8")
        if source.count(old) != 1:
            raise LookupError(
                f"{file}: found {source.count(old)} times, expected once: {old.strip()!r}; "
                "tests/mutations/table.py lists it"
            )
        before = source[: source.index(old)]
        made.append(Mutation(file, before.count("\n") + 1, old, new, why, len(before.encode())))
    return made


def everything() -> list[Mutation]:
    """All mutations."""
    return [m for file in FILES for m in found(file)] + listed()
