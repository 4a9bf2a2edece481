"""A program as data: a list of steps, and the Python text that they are.

The text runs over either library: `lib` is gradhook or torch, `run` a fuzz.running.Run. What a
failure prints is what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fuzz.operations import OpStep

OBSERVING = ("observe", "remove")  # actions that change no gradient


@dataclass(frozen=True)
class Line:
    """One statement; features: what it adds to the table of what was run."""

    text: str
    features: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return [self.text]


@dataclass(frozen=True)
class Hook:
    """The registration of one hook, or retain_grad. kind: a key of fuzz.running.KINDS.

    passed: the target may be the very tensor that a module was given. A module with backward hooks
    is given, and gives back, an alias with gradients of its own, where a bare one has the caller's.
    """

    handle: str
    target: str
    kind: str
    action: str
    factor: float = 1.0
    prepend: bool = False
    passed: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        found = (f"{self.kind} hook", f"a hook that may {self.action}")
        return (*found, "prepended hook") if self.prepend else found

    @property
    def observing(self) -> bool:
        return self.action in OBSERVING

    def lines(self) -> list[str]:
        prepend = ", prepend=True" if self.prepend else ""
        words = f'{self.target}, "{self.kind}", "{self.handle}", "{self.action}", {self.factor}'
        return [f"{self.handle} = run.register({words}{prepend})"]


@dataclass(frozen=True)
class Removal:
    """The removal of a hook from outside."""

    handle: str
    features: tuple[str, ...] = ("removal of a hook",)

    def lines(self) -> list[str]:
        return [f"run.remove({self.handle})"]


@dataclass(frozen=True)
class Block:
    """Steps in a context. observing: without the context the program must give the same."""

    opening: str
    body: tuple[Step, ...]
    features: tuple[str, ...]
    observing: bool = False

    def lines(self) -> list[str]:
        return [f"with {self.opening}:", *indented(self.body)]


Step = Line | Hook | Removal | Block | OpStep


@dataclass(frozen=True)
class ModuleClass:
    """A module: arguments of one shape, perhaps a weight, other modules, a body and results."""

    name: str
    arguments: tuple[str, ...]
    weight: str | None
    inner: tuple[str, ...]
    body: tuple[Step, ...]
    results: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        found = ["module"]
        found += ["nested module"] if self.inner else []
        found += ["module with several outputs"] if len(self.results) > 1 else []
        found += ["module that returns its input"] if {*self.arguments} & {*self.results} else []
        return tuple(found)

    def lines(self) -> list[str]:
        made = [f"self.w = run.parameter({self.weight})"] if self.weight else []
        made += [f"self.{name} = {name}" for name in self.inner]
        return [
            f"class {self.name.upper()}(lib.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            *[f"        {line}" for line in made],
            f"    def forward(self, {', '.join(self.arguments)}):",
            *[f"    {line}" for line in indented(self.body)],
            f"        return {', '.join(self.results)}",
            f"{self.name} = {self.name.upper()}()",
        ]


@dataclass(frozen=True)
class Program:
    """Modules, then the forward steps, then passes (with hooks in between).

    exact: every value is a small whole number, so that sums do not depend on their order.
    smooth: the total is a differentiable function of the leaves, and nothing cuts its graph.
    """

    modules: tuple[ModuleClass, ...]
    steps: tuple[Step, ...]
    passes: tuple[Step, ...]
    exact: bool
    smooth: bool

    def every(self) -> Iterator[Step | ModuleClass]:
        """All steps and modules, blocks and their bodies both."""
        for module in self.modules:
            yield module
            yield from within(module.body)
        yield from within(self.steps)
        yield from within(self.passes)

    def hooks(self) -> list[Hook]:
        return [step for step in self.every() if isinstance(step, Hook)]

    def changed(self, change: Callable[[Step], Step | tuple[Step, ...] | None]) -> Program:
        """With each step replaced: by another, by several, or by nothing (None)."""
        return replace(
            self,
            modules=tuple(replace(m, body=_changed(m.body, change)) for m in self.modules),
            steps=_changed(self.steps, change),
            passes=_changed(self.passes, change),
        )

    def without_observers(self, kept: Callable[[Hook], bool] = lambda hook: False) -> Program:
        """Without hooks that only look, retain_grad and observing contexts; kept: but for these."""
        gone = {h.handle for h in self.hooks() if h.observing and not kept(h)}

        def change(step: Step) -> Step | tuple[Step, ...] | None:
            if isinstance(step, Hook | Removal):
                return None if step.handle in gone else step
            return step.body if isinstance(step, Block) and step.observing else step

        return self.changed(change)

    def operations(self) -> list[OpStep]:
        return [step for step in self.every() if isinstance(step, OpStep)]

    def plainly_posed(self) -> Program:
        """With the ops of the table posed without features."""

        def change(step: Step) -> Step:
            return replace(step, posed=()) if isinstance(step, OpStep) else step

        return self.changed(change)

    def edits_returned(self) -> Program:
        """Hooks that edit a gradient in place return the edited one instead."""

        def change(step: Step) -> Step:
            edits = isinstance(step, Hook) and step.action == "edit"
            return replace(step, action="scale") if edits else step

        return self.changed(change)

    def text(self) -> str:
        """The program in Python."""
        lines = [line for module in self.modules for line in module.lines()]
        lines += [line for step in (*self.steps, *self.passes) for line in step.lines()]
        return "\n".join(lines) + "\n"

    def script(self) -> str:
        """The program as a file that runs on its own from the folder tests."""
        head = ["import gradhook", "from fuzz.running import Run", "", "lib = gradhook  # or torch"]
        return "\n".join([*head, "run = Run(lib)", self.text(), "print(*run.log, sep='\\n')"])


def within(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Steps, and those in their blocks."""
    for step in steps:
        yield step
        if isinstance(step, Block):
            yield from within(step.body)


def _changed(
    steps: tuple[Step, ...], change: Callable[[Step], Step | tuple[Step, ...] | None]
) -> tuple[Step, ...]:
    made: list[Step] = []
    for step in steps:
        if isinstance(step, Block):
            step = replace(step, body=_changed(step.body, change))
        new = change(step)
        if new is not None:
            made.extend(new if isinstance(new, tuple) else (new,))
    return tuple(made)


def indented(steps: tuple[Step, ...]) -> list[str]:
    """The lines of a body, four spaces in."""
    return [f"    {line}" for step in steps for line in step.lines()] or ["    pass"]
