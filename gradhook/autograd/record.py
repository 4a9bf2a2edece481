"""Recorders: for each table op a straight-line function over Tensors, generated on first use.

A recorder runs the forward on the bare arrays and, where an input needs a gradient, makes one Node whose class is
generated for exactly the inputs that need one (a mask), so that only what their formulas name is saved. Ops with more
than three differentiable inputs, or variadic ones, have one class and save for all.
The generated text is in `linecache`, so tracebacks show it. `ops` is `xp` over Tensors: `ops.multiply(a, b)`.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from typing import Any, ClassVar

from gradhook.autograd import saved
from gradhook.autograd.carriers import ARRAY_MODULES, FORMULA_NAMESPACES
from gradhook.autograd.source import formula_text, forward_text, is_fresh
from gradhook.autograd.graph import Node, TensorMeta, new, next_sequence_nr, released_error
from gradhook.modes import get_modes
from gradhook.ops.table import TABLE, Formula, Op
from gradhook.storage import INFERENCE

MASKED_INPUTS = 3


class OpNode(Node):
    """A node of a table op; `row` is the op."""

    __slots__ = ()
    row: ClassVar[Op]
    saved_names: ClassVar[tuple[str, ...]]

    def is_saved_tensor(self, name: str) -> bool:
        """Whether this saved value is one tensor (five entries of `saved`)."""
        return is_tensor(self.row, name) and not self.row.variadic

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return saved.saved_attribute(self, name[7:])
        raise AttributeError(f"{self.name()} has no attribute {name!r}")


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


class Recorders:
    """`xp` over Tensors: the recorder of each table op under its name, generated when first asked for."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = TABLE.get(name)
        if row is None:
            raise AttributeError(f"the op table has no {name!r}; formulas and composites may only use table functions")
        made = _composite(row) if row.composite else Generator(row).recorder()
        setattr(self, name, made)
        return made


ops = Recorders()


def _composite(row: Op) -> Callable[..., Any]:
    forward = row.forward

    def composite(*args: Any, **attributes: Any) -> Any:
        return forward(ops, *args, **attributes)

    composite.__name__, composite.__doc__ = row.name, row.doc
    return composite


def is_output(name: str) -> bool:
    """Whether a formula's parameter is an output: `out`, `out0`, ..."""
    return name == "out" or (name.startswith("out") and name[3:].isdigit())


def is_tensor(row: Op, name: str) -> bool:
    """Whether a formula's parameter is a tensor of the call: an input or an output."""
    return name in row.inputs or is_output(name)


def runtime_scope() -> dict[str, Any]:
    """The names that generated text uses."""
    from gradhook.autograd import binding, operands, views

    return {
        "MODULES": ARRAY_MODULES,
        "INFERENCE": INFERENCE,
        "TensorMeta": TensorMeta,
        "Tensor": binding.Binding.tensor,
        "get_modes": get_modes,
        "new": new,
        "seq": next_sequence_nr,
        "make": binding.make,
        "mark_inference": binding.mark_inference,
        "released_error": released_error,
        **{n: getattr(operands, n) for n in ("operand", "operands", "array_of", "as_array", "recover")},
        **{n: getattr(views, n) for n in ("attach", "derive", "derive_all", "edge_of", "refresh")},
        **{n: getattr(saved, n) for n in SAVING},
    }


SAVING = ("save_all", "save_optional", "stale", "unpack", "unpack_all", "unpack_all_recorded", "zeros")


def define(text: str, name: str, title: str, scope: dict[str, Any]) -> Any:
    """Execute generated text and return what it calls `name`; the text is kept for tracebacks."""
    filename = f"<gradhook {title}>"
    scope.setdefault("__name__", "gradhook.generated")
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), scope)
    return scope[name]


class Generator:
    """Writes the recorder and the node classes of one op."""

    def __init__(self, row: Op) -> None:
        self.row = row
        self.inputs = row.inputs
        self.differentiable = [n for n in row.inputs if row.formulas[n] is not None]
        self.masked = not row.variadic and len(self.differentiable) <= MASKED_INPUTS
        self.multi = row.n_outputs != 1
        self.scope: dict[str, Any] = {
            "ROW": row,
            "FORWARD": row.forward,
            "NAMESPACES": FORMULA_NAMESPACES,
            "TENSORS": ops,
            **runtime_scope(),
        }

    # ---- node classes ----------------------------------------------------------------------
    def formulas(self, mask: int) -> list[Formula]:
        """The distinct formulas of the inputs in the mask, in input order."""
        found: list[Formula] = []
        for i, name in enumerate(self.differentiable):
            formula = self.row.formulas[name]
            if mask >> i & 1 and formula is not None and formula not in found:
                found.append(formula)
        return found

    def save_list(self, mask: int) -> list[str]:
        """What the formulas name, but for `g...` and `needs`, in a fixed order."""
        names: list[str] = []
        for formula in self.formulas(mask):
            for p in formula.parameters:
                if p != "needs" and not (p[0] == "g" and p[1:].isdigit() or p == "g") and p not in names:
                    names.append(p)
        return names

    def is_tensor(self, name: str) -> bool:
        return is_tensor(self.row, name)

    def node_class(self, mask: int) -> type[Node]:
        """The class of nodes recorded for this mask; its `backward` runs the formulas."""
        row = self.row
        names = [n for i, n in enumerate(self.differentiable) if mask >> i & 1]
        save = self.save_list(mask)
        body: dict[str, Any] = {
            "__slots__": ("needs",) if not self.masked else (),
            "__module__": "gradhook.autograd",
            "__qualname__": row.node_name,
            "row": row,
            "saves": any(self.is_tensor(n) for n in save),
            "n_inputs": len(self.inputs),
            "saved_names": tuple(save),
        }
        if not self.masked:
            body["edge_positions"] = property(lambda node: tuple(i for i, n in enumerate(node.needs) if n))
            body["n_inputs"] = property(lambda node: len(node.needs))
        else:
            body["edge_positions"] = tuple(self.inputs.index(n) for n in names)
            body["fresh"] = tuple(is_fresh(row, n) for n in names)
        kind: type[Node] = type(row.node_name, (MultiNode if self.multi else OpNode,), body)
        for recorded in (False, True):
            text = self.backward_text(mask, names, save, recorded)
            scope = dict(self.scope)
            for k, formula in enumerate(self.formulas(mask)):
                scope[f"formula{k}"] = formula.fn
            name = "backward_recorded" if recorded else "backward"
            setattr(kind, name, define(text, name, f"{name} {row.name} {mask}", scope))
        return kind

    def make_class(self, mask: int) -> None:
        """Bind `K<mask>` in the generated text's scope: node classes are made when first recorded."""
        self.scope[f"K{mask}"] = self.node_class(mask)

    def backward_text(self, mask: int, names: list[str], save: list[str], recorded: bool) -> str:
        self.recorded = recorded
        lines = [f"def {'backward_recorded' if recorded else 'backward'}(node, g):"]
        emit = lines.append
        if save:
            emit("    saved = node.saved")
            emit("    if saved is None: raise released_error()")
            emit("    " + "".join(f"{self.unpacked(n)}, " for n in save) + "= saved")
            for n in save:
                if self.row.variadic and n in self.inputs:
                    emit(f"    {n} = unpack_all{'_recorded' if recorded else ''}(node, {n!r}, {n})")
                elif self.is_tensor(n) and recorded:
                    own = n[3:] or "0" if is_output(n) else "-1"
                    emit(f"    {n} = unpack(node, {n!r}, {n}, {n}_v, {n}_n, {n}_e, {n}_i, {own})")
                elif self.is_tensor(n):
                    emit(f"    if {n}_v[0] != {n}_n: raise stale(node, {n!r}, {n}, {n}_v, {n}_n)")
        calls = self.calls(mask, names)
        if self.multi or any("xp" in c for c in calls):
            emit("    xp = TENSORS" if recorded else f"    xp = NAMESPACES[type({self.any_gradient()})]")
        if self.row.n_outputs is not None and self.multi:
            used = {p for f in self.formulas(mask) for p in f.parameters}
            for k in range(self.row.n_outputs):
                if f"g{k}" in used:
                    emit(f"    g{k} = g[{k}] if g[{k}] is not None else zeros(xp, node.metas[{k}], {recorded})")
        elif self.multi:
            emit(f"    g = tuple(h if h is not None else zeros(xp, m, {recorded}) for h, m in zip(g, node.metas))")
        if not self.row.linear and not self.multi:
            emit('    if node.dtype.kind == "c":')
            self.emit_calls(lines, mask, names, wrap=True)
        self.emit_calls(lines, mask, names, wrap=False)
        return "\n".join(lines) + "\n"

    def any_gradient(self) -> str:
        return "next(h for h in g if h is not None)" if self.multi else "g"

    def calls(self, mask: int, names: list[str]) -> list[str]:
        """The text of each formula: its expression where it is one, else a call."""
        needs = repr(tuple(n in names for n in self.inputs)) if self.masked else "node.needs"
        found = []
        for k, formula in enumerate(self.formulas(mask)):
            places = {"xp": "xp", **{p: needs if p == "needs" else p for p in formula.parameters}}
            text = formula_text(self.row, formula.of[0], places) if len(formula.of) == 1 else None
            arguments = "".join(f", {places[p]}" for p in formula.parameters)
            found.append(f"({text})" if text and len(text) < 200 else f"formula{k}(xp{arguments})")
        return found

    def emit_calls(self, lines: list[str], mask: int, names: list[str], wrap: bool) -> None:
        """Evaluate the formulas; `wrap`: conj(formula(conj g)), right for holomorphic ops of complex numbers."""
        indent = "        " if wrap else "    "
        if wrap:
            lines.append(f"{indent}xp = {'TENSORS' if self.recorded else 'NAMESPACES[type(g)]'}; g = xp.conj(g)")
        results: dict[str, str] = {}
        for k, (formula, call) in enumerate(zip(self.formulas(mask), self.calls(mask, names), strict=True)):
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
            lines.append(f"{indent}return (" + "".join(f"{conj(results[n])}, " for n in names) + ")")
        else:
            lines.append(f"{indent}out_ = []")
            for n in names:
                lines.append(f"{indent}if node.needs[{self.inputs.index(n)}]: out_.append({conj(results[n])})")
            lines.append(f"{indent}return tuple(out_)")

    def unpacked(self, n: str) -> str:
        if self.is_tensor(n) and not (self.row.variadic and n in self.inputs):
            return f"{n}, {n}_v, {n}_n, {n}_e, {n}_i"
        return n

    # ---- recorder --------------------------------------------------------------------------
    def recorder(self) -> Callable[..., Any]:
        """The function over Tensors."""
        row = self.row
        for name, value in row.attributes.items():
            self.scope[f"d_{name}"] = value
        text = "\n".join(self.recorder_text()) + "\n"
        made: Callable[..., Any] = define(text, row.name, f"recorder {row.name}", self.scope)
        self.scope["RECORDER"] = made
        made.__doc__ = row.doc
        return made

    def signature(self) -> str:
        row = self.row
        parts = [f"*{n}" if row.variadic else n + ("=None" if n in row.optional else "") for n in row.inputs]
        if row.attributes and not row.variadic:
            parts.append("*")
        for name, value in row.attributes.items():
            parts.append(name if value is inspect.Parameter.empty else f"{name}=d_{name}")
        return ", ".join(parts)

    def recorder_text(self) -> list[str]:
        row = self.row
        lines = [f"def {row.name}({self.signature()}):"]
        emit = lines.append
        attributes = "".join(f", {n}={n}" for n in row.attributes)
        if row.variadic:
            name = row.inputs[0]
            emit(f"    {name} = operands(ROW, *{name})")
            emit(f"    arrays = tuple([t._a for t in {name}])")
            first, arrays = "arrays[0]", "*arrays"
        else:
            self.emit_arrays(lines)
            first, arrays = f"{row.inputs[0]}_a", ", ".join(f"{n}_a" for n in row.inputs)
        places = {"xp": "xp", **{n: f"{n}_a" for n in row.inputs}, **{n: n for n in row.attributes}}
        expression = forward_text(row, places)
        emit("    try:")
        if expression is None or len(expression) > 200:
            emit(f"        out = FORWARD(MODULES[type({first})], {arrays}{attributes})")
        else:
            emit((f"        xp = MODULES[type({first})]; " if "xp" in expression else "        ") + f"out = {expression}")
        emit("    except Exception as error:")
        shown = row.inputs[0] if row.variadic else "(" + "".join(f"{n}, " for n in row.inputs) + ")"
        emit(f"        return recover(ROW, RECORDER, error, {shown}, dict({attributes[2:]}))")
        if self.multi:
            emit(f"    outs = tuple([o if type(o) is type({first}) else as_array({first}, o) for o in out])")
        else:
            emit(f"    if type(out) is not type({first}): out = as_array({first}, out)")
        emit("    m = get_modes()")
        self.emit_outputs(lines, first, attributes)
        condition = self.condition()
        if condition:
            emit(f"    if m.grad{condition}:")
            self.emit_nodes(lines)
            emit("    elif m.inference:")
        else:
            emit("    if m.inference:")
        emit(f"        mark_inference({'ts' if self.multi else '(t,)'})")
        emit("    return ts" if self.multi else "    return t")
        return lines

    def emit_arrays(self, lines: list[str]) -> None:
        row, inputs = self.row, self.inputs
        required = [n for n in inputs if n not in row.optional]
        for n in required:
            lines.append(f'    {n}_a = getattr({n}, "_a", None)')
        tests = [f"{n}_a is None" for n in required]
        first = f"{inputs[0]}_a" if inputs else ""
        if row.promote != "none":
            tests += [f"{n}_a.dtype is not {first}.dtype" for n in required[1:]]
        if row.promote == "float":
            tests.append(f'{first}.dtype.kind not in "fc"')
        if tests:
            lines.append(f"    if {' or '.join(tests)}:")
            if row.operator and len(inputs) == 2:
                lines.append(f"        if not (operand({inputs[0]}) and operand({inputs[1]})): return NotImplemented")
            lines.append(f"        {', '.join(inputs)}, = operands(ROW, {', '.join(inputs)})")
            lines += [f"        {n}_a = {n}._a" for n in required]
        for n in inputs:
            if n in row.optional:
                lines.append(f"    {n}_a = None if {n} is None else array_of(ROW, {n!r}, {n})")

    def emit_outputs(self, lines: list[str], first: str, attributes: str) -> None:
        emit = lines.append
        if self.multi:
            emit("    ts = tuple([make(o) for o in outs])")
            if self.row.view:
                emit(f"    derive_all(ts, {self.inputs[0]}, ROW, dict({attributes[2:]}), m)")
            return
        emit("    t = new(Tensor); t._a = out; t._v = None; t._view = None; t._slot = None; t._nr = 0; t._node = None")
        if self.row.view:
            emit(f"    derive(t, {self.inputs[0]}, ROW, dict({attributes[2:]}), m)")

    def condition(self) -> str:
        """Emitted test that some input needs a gradient; reads each node once."""
        if not self.differentiable:
            return ""
        if self.row.variadic:
            return f" and any([edge_of(t) is not None for t in {self.inputs[0]}])"  # refreshes views, too
        floating = ""
        if "dtype" in self.row.attributes:
            floating = f" and {'outs[0]' if self.multi else 'out'}.dtype.kind in 'fc'"
        return " and (" + " or ".join(f"{n} is not None and {n}._node is not None" if n in self.row.optional
                                      else f"{n}._node is not None" for n in self.differentiable) + ")" + floating

    def emit_nodes(self, lines: list[str]) -> None:
        pad = "        "
        row = self.row
        if row.variadic:
            name = row.inputs[0]
            lines.append(f"{pad}needs = tuple([t._node is not None for t in {name}])")
            lines.append(f"{pad}edges = tuple([e for t in {name} if t._node is not None for e in (t._node, t._nr)])")
            self.emit_node(lines, pad, 1, "edges")
            return
        for n in self.differentiable:
            guard = f"{n} is not None and " if n in row.optional else ""
            lines.append(f"{pad}if {guard}{n}._view is not None: refresh({n})")
            lines.append(f"{pad}{n}_e = {n}._node" + (f" if {n} is not None else None" if n in row.optional else ""))
        count = len(self.differentiable)
        if not self.masked:
            edges = " + ".join(f"(({n}_e, {n}._nr) if {n}_e is not None else ())" for n in self.differentiable)
            needs = "".join(f"{n}_e is not None, " if n in self.differentiable else "False, " for n in self.inputs)
            lines.append(f"{pad}needs = ({needs})")
            lines.append(f"{pad}if any(needs):")
            self.emit_node(lines, pad + "    ", (1 << count) - 1, edges)
            return
        if count == 1:
            only = self.differentiable[0]
            lines.append(f"{pad}if {only}_e is not None:")
            self.emit_node(lines, pad + "    ", 1, f"({only}_e, {only}._nr)")
            return
        bits = " + ".join(f"({n}_e is not None) * {1 << i}" for i, n in enumerate(self.differentiable))
        lines.append(f"{pad}mask = {bits}")
        for mask in range((1 << count) - 1, 0, -1):
            names = [n for i, n in enumerate(self.differentiable) if mask >> i & 1]
            lines.append(f"{pad}{'if' if mask == (1 << count) - 1 else 'elif'} mask == {mask}:")
            self.emit_node(lines, pad + "    ", mask, "(" + ", ".join(f"{n}_e, {n}._nr" for n in names) + ")")

    def emit_node(self, lines: list[str], pad: str, mask: int, edges: str) -> None:
        """The node of one mask: its class is made when first recorded."""
        row = self.row
        emit = lines.append
        self.scope.setdefault(f"K{mask}", None)
        self.scope["make_class"] = self.make_class
        emit(f"{pad}if K{mask} is None: make_class({mask})")
        emit(f"{pad}node = K{mask}(); node.seq = seq(); node.hooks = None; node.edges = {edges}")
        if self.multi:
            emit(f"{pad}node.metas = tuple([TensorMeta(o.shape, o.dtype, type(o)) for o in outs])")
        else:
            emit(f"{pad}node.shape = out.shape; node.dtype = out.dtype")
        if not self.masked:
            emit(f"{pad}node.needs = needs")
        parts = []
        for n in self.save_list(mask):
            parts.append(self.emit_save(lines, pad, n))
        emit(f"{pad}node.saved = ({''.join(p + ', ' for p in parts)})")
        if self.multi:
            outputs = row.differentiable
            emit(f"{pad}attach(ts, node, {outputs!r})")
        else:
            emit(f"{pad}t._node = node")

    def emit_save(self, lines: list[str], pad: str, n: str) -> str:
        """Emit what saving needs; the expression(s) that go into node.saved."""
        row = self.row
        if n.endswith("_shape") and n[:-6] in self.inputs:
            source = n[:-6]
            if row.variadic:
                return "tuple([a.shape for a in arrays])"
            return f"{source}_a.shape" if source not in row.optional else f"None if {source} is None else {source}_a.shape"
        if row.variadic and n in self.inputs:
            return f"save_all({n})"
        if not self.is_tensor(n):
            return n
        if is_output(n):
            k = n[3:]
            tensor, array = (f"ts[{k}]", f"outs[{k}]") if k else ("t", "out")
            lines.append(f"{pad}{n}_v = {tensor}._v")
            lines.append(f"{pad}if {n}_v is None: {n}_v = {tensor}._v = [0, None]")
            return f"{array}, {n}_v, {n}_v[0], None, 0"
        if n in row.optional:
            return f"*save_optional({n}, {n}_a)"
        lines.append(f"{pad}{n}_v = {n}._v")
        lines.append(f"{pad}if {n}_v is None: {n}_v = {n}._v = [0, None]")
        edge = f"{n}_e" if n in self.differentiable else f"{n}._node"
        return f"{n}_a, {n}_v, {n}_v[0], {edge}, {n}._nr"
