"""Nodes of table ops: one class for each op and mask (which inputs need a gradient), its `backward`
generated as straight-line text that runs the formulas on what was saved.
"""

from __future__ import annotations

import linecache
from functools import partial
from typing import Any, ClassVar

import numpy as np

from gradhook.autograd import saved
from gradhook.autograd.carriers import ARRAY_MODULES, FORMULA_NAMESPACES
from gradhook.autograd.compiled import factories
from gradhook.autograd.fusion import large_backward
from gradhook.autograd.graph import Node, TensorMeta, released_error
from gradhook.autograd.saved_tensor import raw_saved
from gradhook.autograd.source import direct_calls, formula_text, is_fresh
from gradhook.native.buffers import LARGE
from gradhook.ops.table import Formula, Op, forgetting

MASKED_INPUTS = 3
_factories = factories()


class OpNode(Node):
    """A node of a table op; `row` is the op."""

    __slots__ = ()
    row: ClassVar[Op]
    saved_names: ClassVar[tuple[str, ...]]
    saved_places: ClassVar[tuple[saved.Place, ...]]


def shown(plan: OpPlan, save: list[str]) -> dict[str, Any]:
    """The attributes that show what a node saved: `_saved_<name>` for each saved tensor, shape or
    attribute, `_raw_saved_<name>` for each tensor, by the name a formula uses and by PyTorch's
    (self, other, result). Properties: a `__getattr__` would slow down every other attribute.
    """
    found: dict[str, Any] = {}
    theirs = {"self": plan.inputs[:1], "other": plan.inputs[1:2], "result": ("out",)}
    names = {n: n for n in save} | {t: n for t, of in theirs.items() for n in of if n in save}
    for name, own in names.items():
        found[f"_saved_{name}"] = property(partial(saved.saved_attribute, name=own))
        if plan.is_tensor(own):
            found[f"_raw_saved_{name}"] = property(partial(raw_saved, name=own))
    return found


class MultiNode(OpNode):
    """A node of a table op with several outputs. metas: a TensorMeta an output."""

    __slots__ = ("metas",)
    multi = True
    metas: tuple[TensorMeta, ...]

    @property
    def n_outputs(self) -> int:
        return len(self.metas)

    def meta(self, output_nr: int) -> TensorMeta:
        return self.metas[output_nr]


class PiecesNode(OpNode):
    """A node of a view op with several outputs, all of the input's dtype and array class."""

    __slots__ = ("array_type", "shapes")
    multi = True
    array_type: type
    shapes: tuple[tuple[int, ...], ...]

    @property
    def metas(self) -> tuple[TensorMeta, ...]:
        return tuple(map(self.meta, range(len(self.shapes))))

    @property
    def n_outputs(self) -> int:
        return len(self.shapes)

    def meta(self, output_nr: int) -> TensorMeta:
        return TensorMeta(self.shapes[output_nr], self.dtype, self.array_type)


def is_output(name: str) -> bool:
    """Whether a formula's parameter is an output: `out`, `out0`, ..."""
    return name == "out" or (name.startswith("out") and name[3:].isdigit())


def is_tensor(row: Op, name: str) -> bool:
    """Whether a formula's parameter is a tensor of the call: an input or an output."""
    return name in row.inputs or is_output(name)


def define(text: str, name: str, title: str, scope: dict[str, Any]) -> Any:
    """Execute generated text and return what it calls `name`; the text is kept for tracebacks.
    The compiled core has the functions of some texts.
    """
    if (factory := _factories.get(text)) is not None:
        function, redirect = factory(scope)
        function.redirect = redirect
        return function
    filename = f"<gradhook {title}>"
    scope.setdefault("__name__", "gradhook.generated")
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), scope)
    return scope[name]


def become(function: Any, other: Any) -> None:
    """Make a generated function, which others hold, do what another one does from now on."""
    redirect = getattr(function, "redirect", None)  # a compiled function's code is fixed
    if redirect is None:
        function.__code__ = other.__code__
    else:
        redirect(other)


class OpPlan:
    """What the generated text of an op depends on: its inputs, which have formulas, what they save.

    masked: a node class for each mask; else (variadic, or more than three differentiable inputs)
    one that saves for all and asks `node.needs`.
    """

    def __init__(self, row: Op) -> None:
        self.row = row
        self.inputs = row.inputs
        self.differentiable = [n for n in row.inputs if row.formulas[n] is not None]
        self.masked = not row.variadic and len(self.differentiable) <= MASKED_INPUTS
        self.multi = row.n_outputs != 1
        self.classes: dict[int, type[Node]] = {}

    def formulas(self, mask: int) -> list[Formula]:
        """The distinct formulas of the inputs in the mask, in input order; a joint one beside them
        for two or more of its inputs.
        """
        needed = [n for i, n in enumerate(self.differentiable) if mask >> i & 1]
        shared = [f for f in self.row.joints if len(set(f.of).intersection(needed)) > 1]
        found: list[Formula] = []
        for name in needed:
            formula = next((f for f in shared if name in f.of), self.row.formulas[name])
            if formula is not None and formula not in found:
                found.append(formula)
        return found

    def save_list(self, mask: int) -> list[str]:
        """What the formulas name, but for `g...` and `needs`, in a fixed order."""
        names: list[str] = []
        for formula in self.formulas(mask):
            for p in formula.parameters:
                if (
                    p != "needs"
                    and not ((p[0] == "g" and p[1:].isdigit()) or p == "g")
                    and p not in names
                ):
                    names.append(p)
        return names

    def is_tensor(self, name: str) -> bool:
        return is_tensor(self.row, name)

    def saved_tensors(self, mask: int) -> list[str]:
        """The names in the save list that stand for tensors."""
        return [n for n in self.save_list(mask) if self.is_tensor(n)]

    def saved_places(self, mask: int) -> tuple[saved.Place, ...]:
        """Where the tensors of the save list lie in a node's `saved`."""
        places, offset = [], 0
        for n in self.save_list(mask):
            several = self.row.variadic and n in self.inputs
            if self.is_tensor(n):
                own = int(n[3:] or 0) if is_output(n) else -1
                places.append(saved.Place(n, offset, own, several))
            offset += 5 if self.is_tensor(n) and not several else 1
        return tuple(places)


_plans: dict[Op, OpPlan] = {}
forgetting.append(lambda row: _plans.pop(row, None))


def plan_of(row: Op) -> OpPlan:
    """The one plan of an op, with the node classes made so far, by mask."""
    if row not in _plans:
        _plans[row] = OpPlan(row)
    return _plans[row]


class BackwardText:
    """Writes an op's backward functions for one mask. tensors: `xp` over Tensors."""

    def __init__(self, plan: OpPlan, mask: int, tensors: Any) -> None:
        self.plan, self.row, self.inputs = plan, plan.row, plan.inputs
        self.masked, self.multi = plan.masked, plan.multi
        self.formulas = plan.formulas(mask)
        self.names = [n for i, n in enumerate(plan.differentiable) if mask >> i & 1]
        self.save = plan.save_list(mask)
        self.mask = mask
        self.scope = {
            "LARGE": LARGE,
            "ndarray": np.ndarray,
            "NAMESPACES": FORMULA_NAMESPACES,
            "MODULES": ARRAY_MODULES,
            "TENSORS": tensors,
            "F4": np.dtype("f4"),
            "F8": np.dtype("f8"),
            "released_error": released_error,
            **{n: getattr(saved, n) for n in UNPACKING},
            **{f"formula{k}": formula.fn for k, formula in enumerate(self.formulas)},
        }

    def node_class(self) -> type[Node]:
        """The class of nodes recorded for this mask; its `backward` runs the formulas."""
        row, names, save = self.row, self.names, self.save
        body: dict[str, Any] = {
            "__slots__": ("needs",) if not self.masked else (),
            "__module__": "gradhook.autograd",
            "__qualname__": row.node_name,
            "row": row,
            "saves": any(self.plan.is_tensor(n) for n in save),
            "n_inputs": len(self.inputs),
            "saved_names": tuple(save),
            "saved_places": self.plan.saved_places(self.mask),
            **shown(self.plan, save),
        }
        if not self.masked:
            body["edge_positions"] = property(
                lambda node: tuple(i for i, n in enumerate(node.needs) if n)
            )
            body["n_inputs"] = property(lambda node: len(node.needs))
        else:
            body["edge_positions"] = tuple(self.inputs.index(n) for n in names)
            of = {n: formula.of for formula in self.formulas for n in formula.of}
            body["fresh"] = tuple(is_fresh(row, of[n]) for n in names)
        several = PiecesNode if row.view else MultiNode
        kind: type[Node] = type(row.node_name, (several if self.multi else OpNode,), body)
        for recorded in (False, True):
            name = "backward_recorded" if recorded else "backward"
            text = self.text(name, recorded)
            title = f"{name} {row.name} {self.mask}"
            setattr(kind, name, define(text, name, title, dict(self.scope)))
        return kind

    def text(self, name: str, recorded: bool) -> str:
        """The function's text."""
        self.recorded, save = recorded, self.save
        lines = [f"def {name}(node, g):"]
        emit = lines.append
        if save:
            emit("    saved = node.saved")
            emit("    if saved is None: raise released_error()")
            emit("    " + "".join(f"{self.unpacked(n)}, " for n in save) + "= saved")
            for n in save:
                if self.row.variadic and n in self.inputs:
                    emit(f"    {n} = unpack_all{'_recorded' if recorded else ''}(node, {n!r}, {n})")
                elif self.plan.is_tensor(n) and recorded:
                    own = n[3:] or "0" if is_output(n) else "-1"
                    emit(f"    {n} = unpack(node, {n!r}, {n}, {n}_v, {n}_n, {n}_e, {n}_i, {own})")
                elif self.plan.is_tensor(n):
                    arguments = f"node, {n!r}, {n}, {n}_v, {n}_n"
                    emit(f"    if {n}_v[0] != {n}_n: {n} = restored({arguments})")
        calls = self.calls()
        if any("(module, " in c for c in calls):
            emit("    module = MODULES[type(g)]")
        if self.multi or any("xp" in c for c in calls):
            emit("    xp = TENSORS" if recorded else f"    xp = NAMESPACES[{self.array_type()}]")
        if self.row.n_outputs is not None and self.multi:
            used = {p for f in self.formulas for p in f.parameters}
            for k in range(self.row.n_outputs):
                if f"g{k}" in used:
                    emit(
                        f"    g{k} = g[{k}] if g[{k}] is not None else zeros(xp, node.metas[{k}], "
                        f"{recorded})"
                    )
        elif self.multi:
            emit("    for h in g:")
            emit("        if h is None:")
            zeros = f"zeros(xp, m, {recorded})"
            emit(f"            g = [{zeros} if h is None else h for h, m in zip(g, node.metas)]")
            emit("            break")
        if not recorded:
            self.emit_large(lines)
        if not self.row.linear and not self.multi:
            emit("    d = node.dtype")  # the two common dtypes cost an identity each
            emit('    if d is not F4 and d is not F8 and d.kind == "c":')
            self.emit_calls(lines, wrap=True)
        self.emit_calls(lines, wrap=False)
        return "\n".join(lines) + "\n"

    def emit_large(self, lines: list[str]) -> None:
        """Large NumPy arrays go through all formulas at once, where each allocates its result."""
        row = self.row
        if self.multi or row.variadic or not self.masked or "needs" in self.parameters():
            return
        if not self.formulas or not all(
            [len(f.of) == 1 and is_fresh(row, f.of) for f in self.formulas]
        ):
            return
        tensors = [n for n in self.save if self.plan.is_tensor(n)]
        others = [n for n in self.save if not self.plan.is_tensor(n)]
        self.scope["LARGE_BACKWARD"] = large_backward(self.formulas, tensors, others)
        arrays, options = (
            f"({''.join(f'{n}, ' for n in names)})" for names in (["g", *tensors], others)
        )
        lines.append("    if g.size >= LARGE and type(g) is ndarray:")
        lines.append(f"        found = LARGE_BACKWARD({arrays}, {options})")
        lines.append("        if found is not None: return found")

    def parameters(self) -> set[str]:
        return {p for f in self.formulas for p in f.parameters}

    def array_type(self) -> str:
        if self.multi:
            return "node.array_type" if self.row.view else "node.metas[0].array_type"
        return "type(g)"

    def calls(self) -> list[str]:
        """The text of each formula: its expression where it is one, else a call."""
        needs = repr(tuple(n in self.names for n in self.inputs)) if self.masked else "node.needs"
        found = []
        for k, formula in enumerate(self.formulas):
            places = {"xp": "xp", **{p: needs if p == "needs" else p for p in formula.parameters}}
            text = formula_text(self.row, ",".join(formula.of), places)
            if text is None or len(text) > 200:
                arguments = "".join(f", {places[p]}" for p in formula.parameters)
                text = f"formula{k}(xp{arguments})"
            elif not self.recorded and not self.multi:
                text, direct = direct_calls(text)
                self.scope.update(direct)
            found.append(f"({text})")
        return found

    def emit_calls(self, lines: list[str], wrap: bool) -> None:
        """Evaluate the formulas; `wrap`: conj(formula(conj g)), right for holomorphic ops of
        complex numbers.
        """
        names = self.names
        indent = "        " if wrap else "    "
        if wrap:
            lines.append(
                f"{indent}xp = {'TENSORS' if self.recorded else 'NAMESPACES[type(g)]'}; g = "
                f"xp.conj(g)"
            )
        results: dict[str, str] = {}
        for k, (formula, call) in enumerate(zip(self.formulas, self.calls(), strict=True)):
            if len(formula.of) > 1 or self.row.variadic:
                lines.append(f"{indent}r{k} = {call}")
                for j, n in enumerate(formula.of):
                    results[n] = f"r{k}[{j}]"
                if self.row.variadic:
                    results[formula.of[0]] = f"r{k}"
            else:
                results[formula.of[0]] = call
        if self.row.variadic:
            only = results[names[0]]
            value = f"tuple(xp.conj(h) for h in {only})" if wrap else only
            lines.append(f"{indent}return tuple(h for h, n in zip({value}, node.needs) if n)")
            return
        conj = (lambda e: f"xp.conj({e})") if wrap else (lambda e: e)
        if self.masked:
            lines.append(
                f"{indent}return (" + "".join(f"{conj(results[n])}, " for n in names) + ")"
            )
        else:
            lines.append(f"{indent}out_ = []")
            for n in names:
                lines.append(
                    f"{indent}if node.needs[{self.inputs.index(n)}]: "
                    f"out_.append({conj(results[n])})"
                )
            lines.append(f"{indent}return tuple(out_)")

    def unpacked(self, n: str) -> str:
        if self.plan.is_tensor(n) and not (self.row.variadic and n in self.inputs):
            return f"{n}, {n}_v, {n}_n, {n}_e, {n}_i"
        return n


UNPACKING = ("restored", "unpack", "unpack_all", "unpack_all_recorded", "zeros")
