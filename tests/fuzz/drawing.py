"""Hypothesis strategies that draw programs. Shapes, and what a write may touch, are known while
drawing, so that most programs run to their end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

import gradhook
from fuzz.operations import POSED, ROWS, SHAPE, OpStep
from fuzz.program import Block, Hook, Line, ModuleClass, Program, Removal, Step

OPS = sorted(ROWS)
# SHAPE: of leaves, of the arguments of modules, and of what comes of an op of the table

# Texts of operations on {a} and {b}, by what they need: exact ones make whole numbers of whole
# numbers. True: saves what it reads or makes, which then must not be written.
UNARY = {
    "exact": [
        ("-{a}", False), ("{a} * 2.0", False), ("{a}.clone()", False), ("{a} + 1.0", False),
        ("{a}.relu()", True), ("{a}.clamp(-3.0, 3.0)", True), ("{a}.abs()", True),
        ("{a}.sum(0)", False), ("lib.cat([{a}, {a}], -1)", False), ("lib.stack([{a}, {a}])", False),
        ("({a} * {a}).clamp(-2.0, 2.0)", True),
    ],
    "smooth": [
        ("{a}.tanh()", True), ("{a}.sin()", True), ("({a} * 0.3).exp().clone()", False),
        ("{a}.sigmoid()", True), ("-{a}", False), ("{a} * 0.5", False), ("{a}.clone()", False),
        ("{a}.mean(-1)", False), ("{a} * {a}", True), ("{a} / ({a} * {a} + 1.0)", True),
        ("{a}.softmax(-1)", True), ("lib.stack([{a}, {a} * 2.0])", False),
    ],
}  # fmt: skip
BINARY = {
    "exact": [("{a} * {b}", True), ("{a} + {b}", False), ("{a} - {b}", False)],
    "smooth": [("{a} * {b}", True), ("{a} + {b}", False), ("({a} * {b}).tanh()", True)],
}
VIEWS = [
    "{a}[0]", "{a}[..., 1:]", "{a}[..., 0]", "{a}[::2]", "{a}.reshape(-1)", "{a}.unsqueeze(0)",
    "{a}.transpose(0, -1)", "{a}.narrow(-1, 0, 1)", "{a}.select(-1, 0)", "{a}.view_as({a})",
    "{a}.expand(2, *{a}.shape)", "{a}.unbind(0)[0]", "{a}.chunk(2)[0]", "{a}.squeeze()",
    "{a}.detach()",
]  # fmt: skip
WRITES = {
    "exact": ["{a}.mul_(2.0)", "{a}.add_({b})", "{a}.zero_()", "{a}.sub_({b})", "{a}[..., 0] = 1.0",
              "{a}.copy_({b})", "{a}[-1:] = {b}[-1:]", "{a}.neg_()"],
    "smooth": ["{a}.mul_(0.5)", "{a}.add_({b})", "{a}.sin_()", "{a}.tanh_()", "{a}[..., 0] = 0.5",
               "{a}.copy_({b})", "{a}[-1:] = {b}[-1:]", "{a}.fill_(0.3)"],
}  # fmt: skip
CUTS = (".detach()", ".unbind(", ".chunk(")  # no smooth function of the leaves, or written after
GRADIENT_KINDS = ("tensor", "node pre", "node post", "accumulated")
MODULE_KINDS = ("full", "full pre", "full", "full pre", "forward", "forward pre")


@lru_cache(maxsize=4096)
def shape_of(text: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of what a text makes of two shapes; None where it refuses them."""
    names = {"lib": gradhook, "a": gradhook.zeros(a), "b": gradhook.zeros(b)}
    try:
        return tuple(eval(text.format(a="a", b="b"), names).shape)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None


@dataclass
class Memory:
    """What registers that may share memory have in common."""

    saved: bool = False  # by an operation, for backward
    written: bool = False
    fixed: bool = False  # a leaf's: never written
    hooked: bool = False
    registers: int = 0


@dataclass
class Register:
    name: str
    shape: tuple[int, ...]
    memory: Memory
    overlapping: bool = False  # an expanded view, which no write takes
    leaf: bool = False
    passed: bool = False  # an argument of a module, or what a module may have passed through
    given: bool = False  # a module's result


@dataclass
class Module:
    """What a caller must know of a module that was drawn."""

    name: str
    arguments: list[Memory]
    results: list[Register]


@dataclass
class Scope:
    """The registers and handles that the text at one place can name. prefix: of its own names."""

    prefix: str
    registers: list[Register]
    modules: list[Module]
    owner: str = ""  # "self." in a body
    handles: list[str] = field(default_factory=list)


class Drawer:
    """Draws one program."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.arithmetic = draw(st.sampled_from(("exact", "smooth")))
        self.smooth = self.arithmetic == "smooth"
        self.count = 0
        self.modules: list[Module] = []
        self.classes: list[ModuleClass] = []

    def one(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def chance(self, tenths: int) -> bool:
        return bool(self.draw(st.integers(0, 9)) >= 10 - tenths)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def values(self) -> str:
        count = SHAPE[0] * SHAPE[1]
        if self.smooth:
            flat = [self.draw(st.integers(-12, 12)) / 8 + 0.05 for _ in range(count)]
        else:
            flat = [float(self.draw(st.integers(-2, 2))) for _ in range(count)]
        return str([flat[:3], flat[3:]])

    # ---- steps

    def steps(self, scope: Scope, most: int) -> tuple[Step, ...]:
        made: list[Step] = []
        for _ in range(self.draw(st.integers(1, most))):
            made += self.step(scope)
        return tuple(made)

    def step(self, scope: Scope) -> list[Step]:
        kinds = ["compute"] * 4 + ["view"] * 3 + ["write"] * 4 + ["hook"] * 4 + ["block", "removal"]
        kinds += ["call"] * (5 if scope.modules else 0)
        kinds += ["operation"] * (3 if self.arithmetic == "smooth" else 0)
        kind = self.one(kinds)
        return [step for step in getattr(self, kind)(scope) if step is not None]

    def new(self, scope: Scope, shape: Any, memory: Memory | None = None, **more: Any) -> Register:
        made = Register(self.fresh(scope.prefix), shape, memory or Memory(), **more)
        made.memory.registers += 1
        scope.registers.append(made)
        return made

    def compute(self, scope: Scope) -> list[Step]:
        a = self.one(scope.registers)
        text, saves = self.one(UNARY[self.arithmetic] + BINARY[self.arithmetic] * 2)
        b = self.one([r for r in scope.registers if r.shape in (a.shape, ())] or [a])
        shape = shape_of(text, a.shape, b.shape)
        if shape is None or len(shape) > 4:
            return []
        made = self.new(scope, shape)
        for register in (a, b, made):
            register.memory.saved |= saves
        return [Line(f"{made.name} = {text.format(a=a.name, b=b.name)}", ("operation",))]

    def operation(self, scope: Scope) -> list[Step]:
        """An op of the table."""
        name, a = self.one(OPS), self.one(scope.registers)
        k = self.draw(st.integers(0, len(ROWS[name]) - 1))
        posed = tuple(f for f in POSED if self.chance(2))
        made = self.new(scope, SHAPE)
        a.memory.saved = made.memory.saved = True
        step = OpStep(made.name, name, k, a.name, posed)
        self.smooth = self.smooth and step.smooth
        return [step]

    def view(self, scope: Scope) -> list[Step]:
        a, text = self.one(scope.registers), self.one(VIEWS)
        shape = shape_of(text, a.shape, ())
        if shape is None or len(shape) > 4:
            return []
        if any(cut in text for cut in CUTS):
            self.smooth = False
        overlapping = a.overlapping or "expand" in text
        made = self.new(scope, shape, a.memory, overlapping=overlapping)
        feature = "detach" if "detach" in text else "view"
        return [Line(f"{made.name} = {text.format(a=a.name)}", (feature,))]

    def write(self, scope: Scope) -> list[Step]:
        def may(r: Register) -> bool:
            return not (r.overlapping or r.memory.fixed or r.memory.saved)

        rarely = self.draw(st.integers(0, 39)) == 39
        targets = [r for r in scope.registers if not r.overlapping and (rarely or may(r))]
        if not targets:
            return []
        a = self.one(targets)
        others = [r for r in scope.registers if r.memory is not a.memory]
        b = self.one([r for r in others if r.shape == a.shape] or [a])
        text = self.one([t for t in WRITES[self.arithmetic] if b is not a or "{b}" not in t])
        if a.shape == () and "[" in text:
            return []
        stale = a.memory.written and a.memory.registers > 1
        a.memory.written = True
        a.memory.saved |= "sin_" in text or "tanh_" in text
        write = text.format(a=a.name, b=b.name)
        if stale:  # torch takes a stale view for a leaf until it is asked
            write = f"{a.name}.is_leaf; {write}"
        return [Line(write, ("write in place",))]

    def block(self, scope: Scope) -> list[Step]:
        name = self.fresh("s")
        observing = self.chance(7)
        openings = {
            True: (f'run.saved("{name}", "{self.one(("keep", "copy"))}")', "saved-tensor hooks"),
            False: ("lib.no_grad()", "no_grad"),
        }
        opening, feature = openings[observing]
        if not observing:
            self.smooth = False
        body = self.steps(scope, 3)
        return [Block(opening, body, (feature,), observing)]

    def removal(self, scope: Scope) -> list[Step]:
        return [Removal(self.one(scope.handles))] if scope.handles else []

    # ---- hooks

    def hook(self, scope: Scope) -> list[Step]:
        if scope.modules and scope.prefix == "r" and self.chance(3):
            return [self.module_hook(self.one(scope.modules).name, scope)]
        a = self.one(scope.registers)
        memory = a.memory
        if memory.registers > 1 and memory.written and memory.hooked:
            return []  # torch loses hooks of a stale view, and of what is registered on it (D2)
        kind = self.one((*GRADIENT_KINDS, "retain", "tensor", "multi"))
        if a.leaf and kind == "retain":
            return []
        own = a.leaf or not (a.passed or a.given or a.memory.written)
        if (kind == "accumulated" and not a.leaf) or (kind.startswith("node") and not own):
            kind = "tensor"  # torch's barriers and CopySlices have places without a gradient, too
        memory.hooked = True
        if kind == "multi":
            b = self.one(scope.registers)
            b.memory.hooked = True
            return [self.made(scope, f"({a.name}, {b.name})", kind, "observe")]
        action = "observe" if kind == "retain" else self.action()
        return [replace(self.made(scope, a.name, kind, action), passed=a.passed)]

    def action(self) -> str:
        if self.draw(st.integers(0, 39)) == 39:
            return "raise"
        return str(self.one(["observe"] * 5 + ["remove", "scale", "scale", "replace", "edit"]))

    def module_hook(self, target: str, scope: Scope) -> Hook:
        kind, action = self.one(MODULE_KINDS), self.action()
        if kind.startswith("forward"):
            if self.chance(3) and action in ("edit", "replace"):
                action = "scale"
            elif action in ("edit", "replace"):
                action = "observe"
        return self.made(scope, target, kind, action)

    def made(self, scope: Scope, target: str, kind: str, action: str) -> Hook:
        handle = self.fresh("h")
        if kind not in ("retain", "multi"):
            scope.handles.append(handle)
        factor = float(self.one((2, -1, 3)))
        prepend = kind in MODULE_KINDS and self.chance(2)
        return Hook(handle, target, kind, action, factor, prepend)

    # ---- modules

    def module(self, depth: int) -> Module:
        name = self.fresh("m")
        inner = []
        if depth < 2 and self.chance(4):
            inner.append(self.module(depth + 1))
        elif self.modules and self.chance(3):
            inner.append(self.one(self.modules))
        arguments = [self.fresh("a") for _ in range(self.draw(st.integers(1, 2)))]
        memories = [Memory(registers=1) for _ in arguments]
        pairs = zip(arguments, memories, strict=True)
        registers = [Register(a, SHAPE, memory, passed=True) for a, memory in pairs]
        weight = self.values() if self.chance(4) else None
        if weight:
            registers.append(Register("self.w", SHAPE, Memory(fixed=True, registers=1), leaf=True))
        scope = Scope("t", registers, inner, owner="self.")
        body = self.steps(scope, 4)
        own = [r for r in scope.registers if r.name.startswith("t")]
        results = [self.one((own or registers) if self.chance(8) else registers)]
        if self.chance(3):
            results.append(self.one(scope.registers))
        made = Module(name, memories, results)
        names = tuple(r.name for r in results)
        inner_names = tuple(m.name for m in inner)
        self.classes.append(ModuleClass(name, tuple(arguments), weight, inner_names, body, names))
        self.modules.append(made)
        return made

    def call(self, scope: Scope) -> list[Step]:
        module = self.one(scope.modules)
        fits = [r for r in scope.registers if r.shape == SHAPE]
        if not fits:
            return []
        given = []
        for memory in module.arguments:
            free = [r for r in fits if not (r.memory.fixed or r.memory.saved or r.overlapping)]
            given.append(self.one(free if memory.written and free else fits))
        passed = []
        for register, memory in zip(given, module.arguments, strict=True):
            register.memory.saved |= memory.saved
            register.memory.written |= memory.written
            register.memory.hooked |= memory.hooked
            passed.append(memory)
        names = []
        twice = len({id(r) for r in module.results}) < len(module.results)
        for result in module.results:
            place = next((k for k, m in enumerate(passed) if m is result.memory), None)
            memory = given[place].memory if place is not None else None
            made = self.new(
                scope, result.shape, memory, overlapping=result.overlapping,
                passed=result.passed or result.leaf or twice, given=True,
            )  # fmt: skip
            made.memory.saved |= result.memory.saved
            names.append(made.name)
        arguments = ", ".join(r.name for r in given)
        text = f"{', '.join(names)} = {scope.owner}{module.name}({arguments})"
        return [Line(text, ("call of a module",))]

    # ---- the whole

    def program(self) -> Program:
        scope = Scope("r", [], self.modules)
        steps: list[Step] = []
        for _ in range(self.draw(st.integers(1, 2))):
            name, memory = self.fresh("x"), Memory(fixed=True, registers=1)
            scope.registers.append(Register(name, SHAPE, memory, leaf=True))
            steps.append(Line(f"{name} = run.leaf({self.values()})", ("leaf",)))
        leaves = [r.name for r in scope.registers]
        if self.chance(3):
            scope.registers.append(Register("c", SHAPE, Memory(registers=1)))
            steps.append(Line(f"c = run.constant({self.values()})", ("constant",)))
        for _ in range(self.draw(st.integers(0, 3))):
            made = self.module(0)
            hooks = range(self.draw(st.integers(0, 3)))
            steps += [self.module_hook(made.name, scope) for _ in hooks]
        steps += self.steps(scope, 10)
        steps.append(Line(f"total = run.total({', '.join(r.name for r in scope.registers)})"))
        passes = self.passes(scope, leaves)
        return Program(
            tuple(self.classes), tuple(steps), tuple(passes), self.arithmetic == "exact",
            self.smooth,
        )  # fmt: skip

    def passes(self, scope: Scope, leaves: list[str]) -> list[Step]:
        made: list[Step] = []
        all_leaves = "run.leaves" if self.chance(7) else f"[{self.one(leaves)}]"
        texts = [
            ("run.backward(total, retain_graph=True)", "backward with retain_graph"),
            (f"run.gradients(total, {all_leaves}, retain_graph=True)", "grad()"),
            (f"run.penalty(total, {all_leaves})", "create_graph"),
            (f"run.backward(total, retain_graph=True, inputs={all_leaves})", "backward(inputs=)"),
            ("run.backward(total, retain_graph=True, create_graph=True)", "create_graph"),
        ]
        inner = [r.name for r in scope.registers if r.name.startswith("r") and not r.passed]
        if inner:
            a = self.one(inner)
            text = f"run.gradients(total, [{a}], retain_graph=True)"
            texts.append((text, "grad() of a result"))
        for _ in range(self.draw(st.integers(0, 2))):
            text, feature = self.one(texts)
            made.append(Line(text, (feature,)))
            if self.chance(2):
                made += [step for step in self.hook(scope) if isinstance(step, Hook)]
            if self.chance(2):
                made += self.removal(scope)
        made.append(Line("run.backward(total)", ("backward",)))
        if self.chance(1):
            made.append(Line("run.backward(total)", ("backward after the graph is freed",)))
        return made


@st.composite
def programs(draw: Any) -> Program:
    """Any program."""
    return Drawer(draw).program()
