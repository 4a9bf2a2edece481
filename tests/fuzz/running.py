"""What a program's text calls: leaves, hooks of each kind and action, totals and passes; and what
a run gave.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzz.operations import pose

# A kind of hook: how it is registered, and which of its arguments is a gradient (or value) that its
# result replaces; the others are only seen.
KINDS: dict[str, tuple[str, int]] = {
    "tensor": ("register_hook", 0),
    "node pre": ("register_prehook", 0),
    "node post": ("register_hook", 0),
    "accumulated": ("register_post_accumulate_grad_hook", 0),
    "forward pre": ("register_forward_pre_hook", 1),
    "forward": ("register_forward_hook", 2),
    "full pre": ("register_full_backward_pre_hook", 1),
    "full": ("register_full_backward_hook", 1),
    "multi": ("register_multi_grad_hook", 0),
    "retain": ("retain_grad", 0),
}

ZERO = 1e-12


class Boom(Exception):
    """Raised by a hook whose action is to raise."""


@dataclass
class Outcome:
    """What a run gave. log: events, values and results of grad() as they came. leaves, retained:
    `.grad` at the end, nested lists of floats, None where there is none.

    error: type, text and line of the program, of what ended it; None when it ran through.
    """

    log: list[Any]
    leaves: list[Any]
    retained: list[Any]
    error: tuple[str, str, int] | None


class Run:
    """One run over one library.

    shift: every leaf and weight moves by shift times a fixed direction, whose derivative `slope`
    is. only_forward: stops at the total.
    """

    def __init__(self, lib: Any, shift: float = 0.0, only_forward: bool = False) -> None:
        self.lib, self.shift, self.only_forward = lib, shift, only_forward
        self.log: list[Any] = []
        self.leaves: list[Any] = []
        self.kept: list[Any] = []
        self.directions: list[Any] = []
        self.random = random.Random(0)
        self.sum: Any = None

    # ---- tensors

    def moved(self, values: Any) -> Any:
        """The values, a little along a direction of its own for each."""
        t = self.lib.tensor(values, dtype=self.lib.float64)
        count = t.numel()
        along = [self.random.uniform(-1, 1) for _ in range(count)]
        direction = self.lib.tensor(along, dtype=self.lib.float64).reshape(t.shape)
        self.directions.append(direction)
        return t + direction * self.shift if self.shift else t

    def leaf(self, values: Any) -> Any:
        self.leaves.append(self.moved(values).requires_grad_())
        return self.leaves[-1]

    def parameter(self, values: Any) -> Any:
        self.leaves.append(self.lib.nn.Parameter(self.moved(values)))
        return self.leaves[-1]

    def constant(self, values: Any) -> Any:
        return self.lib.tensor(values, dtype=self.lib.float64)

    def op(self, name: str, row: int, register: Any, features: list[str]) -> Any:
        """An op of the table on the arrays of a row, moved by a register."""

        def watch(t: Any) -> None:
            if t is not None and t.requires_grad:
                t.register_hook(lambda g: self.log.append(("tensor", f"op {name}", plain(g))))

        return pose(self.lib, name, row, register, features, watch)

    # ---- hooks

    def register(
        self, target: Any, kind: str, name: str, action: str, factor: float, prepend: bool = False
    ) -> Any:
        """The handle; None where the target takes no hook because it needs no gradient."""
        method = KINDS[kind][0]
        if kind == "multi":
            target = [t for t in target if self.recorded(t)]
            if not target:
                return None
            made = _Acting(self, kind, name, action, factor, any(t.is_leaf for t in target))
            made.handle = self.lib.autograd.graph.register_multi_grad_hook(target, made)
            return made.handle
        leaf = False
        if not isinstance(target, self.lib.nn.Module):
            if not self.recorded(target):
                return None
            node, leaf = target.grad_fn, target.is_leaf
            if kind.startswith("node"):
                with self.lib.enable_grad():
                    view = target.view_as(target)
                target = node or view.grad_fn.next_functions[0][0]
                self.kept.append(target)  # torch forgets hooks of an accumulator nobody holds
        if kind == "retain":
            self.kept.append((name, target))
            return target.retain_grad()
        made = _Acting(self, kind, name, action, factor, leaf)
        made.handle = getattr(target, method)(made, **({"prepend": True} if prepend else {}))
        return made.handle

    def recorded(self, t: Any) -> bool:
        """Whether t takes hooks. Not a view made under no_grad, which requires grad on torch only
        (deviation 16)."""
        node = t.grad_fn  # brings a stale view up to date: torch crashes on one
        return bool(t.requires_grad) and (node is not None or getattr(t, "_base", None) is None)

    def remove(self, handle: Any) -> None:
        if handle is not None:
            handle.remove()

    def saved(self, name: str, action: str) -> Any:
        """The context of a pair of saved-tensor hooks."""

        def pack(t: Any) -> Any:
            return (t.shape, t.clone()) if action == "copy" else (t.shape, t)

        def unpack(packed: Any) -> Any:
            return packed[1]

        return self.lib.autograd.graph.saved_tensors_hooks(pack, unpack)

    # ---- passes

    def total(self, *tensors: Any) -> Any:
        """A scalar that depends on all tensors."""
        values = [t.detach().tolist() for t in tensors]
        self.log.append(("values", values))
        self.sum = sum(((t * (k + 1.0)).sum() for k, t in enumerate(tensors)), 0.0)
        if self.only_forward:
            raise Enough
        return self.sum

    def backward(self, total: Any, **options: Any) -> None:
        self.log.append(("whole" if options.get("inputs") is None else "part",))
        total.backward(**options)

    def gradients(self, total: Any, inputs: list[Any], **options: Any) -> tuple[Any, ...]:
        inputs = [t for t in inputs if self.recorded(t)]
        if not inputs:
            return ()
        self.log.append(("part",))
        found = self.lib.autograd.grad(total, inputs, allow_unused=True, **options)
        self.log.append(("result", plain(found)))
        return tuple(found)

    def penalty(self, total: Any, inputs: list[Any]) -> None:
        """Double backward: the gradients of the squares of the gradients."""
        first = self.gradients(total, inputs, create_graph=True)
        self.log.append(("double",))
        found = [g for g in first if g is not None and g.requires_grad]
        again = sum(((g * g).sum() for g in found), total * 0)
        second = self.lib.autograd.grad(again, inputs, allow_unused=True, retain_graph=True)
        self.log.append(("end of double",))
        self.log.append(("result", plain(second)))

    def total_needs_gradient(self) -> bool:
        return self.sum is not None and bool(self.sum.requires_grad)

    def slope(self) -> float:
        """The derivative of the total along the direction, by gradients of what ran forward."""
        found = self.lib.autograd.grad(self.sum, self.leaves, allow_unused=True)
        pairs = zip(found, self.directions, strict=True)
        return sum(float((g * d).sum().item()) for g, d in pairs if g is not None)


class Enough(Exception):
    """Ends a run of which only the total is asked."""


class _Acting:
    """A hook that logs what it sees, then acts."""

    def __init__(
        self, run: Run, kind: str, name: str, action: str, factor: float, leaf: bool
    ) -> None:
        self.run, self.kind, self.name, self.action, self.factor = run, kind, name, action, factor
        self.logged = f"leaf {kind}" if leaf else kind
        self.handle: Any = None
        self.__name__ = name

    def __call__(self, *args: Any) -> Any:
        kind, lib = self.kind, self.run.lib
        seen = [a for a in args if not isinstance(a, lib.nn.Module)]
        if kind == "accumulated":
            seen = [args[0].grad]
        self.run.log.append((self.logged, self.name, *map(plain, seen)))
        if self.action == "raise":
            raise Boom(self.name)
        if self.action == "remove" and self.handle is not None:
            self.handle.remove()
        change = self.changes().get(self.action)
        if change is None:
            return None
        if kind == "accumulated":
            p = args[0]
            if p.grad is not None:
                changed = change(p.grad)
                p.grad = p.grad if changed is None else changed.detach()
            return None
        changed = each(args[KINDS[kind][1]], change)
        return None if self.action == "edit" else changed

    def changes(self) -> dict[str, Callable[[Any], Any]]:
        """What an action makes of one gradient."""
        lib, factor = self.run.lib, self.factor
        return {
            "scale": lambda g: g * factor,
            "edit": lambda g: g.mul_(factor),
            "replace": lambda g: g if plain(g) is None else lib.full_like(g, factor),
        }


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    return tuple(each(v, change) for v in value) if isinstance(value, tuple) else change(value)


def plain(value: Any) -> Any:
    """Lists of floats. Zeros, or what rounding leaves of them, count as None: torch gives them
    where gradhook gives None (D12)."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    value = value.detach()
    found = (value.resolve_conj() if hasattr(value, "resolve_conj") else value).tolist()
    return found if bool((value.abs() > ZERO).any()) else None


def outcome(text: str, lib: Any, **options: Any) -> tuple[Outcome, Run]:
    """Run a program's text over a library."""
    run, error = Run(lib, **options), None
    names = {"lib": lib, "run": run}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, "<program>", "exec"), names)
        except Enough:
            pass
        except Exception as caught:
            error = (type(caught).__name__, str(caught), line_of(caught))
        leaves = [plain(t.grad) for t in run.leaves]
        retained = [(k[0], plain(k[1].grad)) for k in run.kept if isinstance(k, tuple)]
    return Outcome(run.log, leaves, retained, error), run


def line_of(error: BaseException) -> int:
    """The line of the program's own text (outside modules' forward) where it ended."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != "<program>":
        at = at.tb_next
    return 0 if at is None else at.tb_lineno
