"""Recorders: for each table op a straight-line function over Tensors, generated on first use.

A recorder runs the forward on the bare arrays and, where an input needs a gradient, makes one Node
whose class is generated for exactly the inputs that need one (a mask), so that only what their
formulas name is saved. Ops with more than three differentiable inputs, or variadic ones, have one
class and save for all.
The generated text is in `linecache`, so tracebacks show it. `ops` is `xp` over Tensors:
`ops.multiply(a, b)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakSet

from gradhook.autograd.carriers import Forwards
from gradhook.autograd.fusion import large_forward
from gradhook.autograd.graph import Node
from gradhook.autograd.numbering import numbering
from gradhook.autograd.op_node import BackwardText, become, define, is_output, plan_of
from gradhook.autograd.operands import composite_over, refusal
from gradhook.autograd.recorder_scope import runtime_scope
from gradhook.autograd.source import forward_text
from gradhook.autograd.watch import Watching
from gradhook.backend import Process, on_change
from gradhook.kernels.registry import has_kernel
from gradhook.ops.table import TABLE, Op, forgetting


class Recorders:
    """`xp` over Tensors: the recorder of each table op under its name, generated when first asked
    for.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = TABLE.get(name)
        if row is None:
            raise AttributeError(
                f"the op table has no {name!r}; formulas and composites may only use table "
                f"functions"
            )
        made = composite_over(self, row) if row.composite else RecorderText(row).recorder()
        setattr(self, name, made)
        return made


ops: Any = Recorders()


@cache
def operator_of(name: str) -> Callable[..., Any]:
    """The recorder of an op as `__<operator>__`: NotImplemented for what it does not take."""
    row = TABLE[name]
    made: Callable[..., Any] = (
        getattr(ops, name) if row.composite else RecorderText(row, operator=True).recorder()
    )
    return made


RESERVED = frozenset("arrays d error found m needs node out outs t ts v xp".split())
_written: WeakSet[RecorderText] = WeakSet()


def _rewrite() -> None:
    """CUDA, a second device, or what watches nodes came into use: the recorders made so far get
    their new text, so that a program without them never pays for it."""
    for text in list(_written):
        recorder = text.scope["RECORDER"]
        text.scope["seq"] = numbering.draw
        become(recorder, text.written())


forgetting.append(lambda row: vars(ops).pop(row.name, None))
on_change(_rewrite)
Watching.on_start.append(_rewrite)
numbering.listeners.append(_rewrite)


class RecorderText:
    """Writes the recorder of one op; operator: the one behind the Python operator."""

    def __init__(self, row: Op, operator: bool = False) -> None:
        taken = RESERVED.intersection((*row.inputs, *row.attributes))
        if taken:
            raise TypeError(f"op {row.name!r}: {sorted(taken)} are names of the recorder itself")
        self.row = row
        self.operator = operator and len(row.inputs) == 2
        self.plan = plan_of(row)
        self.inputs, self.differentiable = row.inputs, self.plan.differentiable
        self.masked, self.multi = self.plan.masked, self.plan.multi
        self.scope: dict[str, Any] = {
            "ROW": row,
            "FORWARD": row.forward,
            "make_class": self.make_class,
            **runtime_scope(),
        }

    def make_class(self, mask: int) -> type[Node]:
        """The class of nodes of one mask, `K<mask>` in the text: made when first recorded."""
        classes = self.plan.classes
        if mask not in classes:
            classes[mask] = BackwardText(self.plan, mask, ops).node_class()
        return classes[mask]

    def recorder(self) -> Callable[..., Any]:
        """The function over Tensors."""
        row = self.row
        self.scope |= {f"d_{name}": value for name, value in row.attributes.items()}
        made: Callable[..., Any] = self.written()
        self.scope["RECORDER"] = made
        made.__doc__ = row.doc
        _written.add(self)
        self.scope["seq"] = numbering.draw  # it may have changed meanwhile
        return made

    def written(self) -> Any:
        """The function of the text as it must be now: with streams once CUDA is in use, devices
        once two are, and a look at `modes.watch` once something watches nodes."""
        self.devices = len(Process.devices)
        text = "\n".join(self.recorder_text()) + "\n"
        return define(text, self.row.name, f"recorder {self.row.name}", self.scope)

    def signature(self) -> str:
        row = self.row
        parts = [
            f"*{n}" if row.variadic else n + ("=None" if n in row.optional else "")
            for n in row.inputs
        ]
        if row.attributes and not row.variadic:
            parts.append("*")
        for name, value in row.attributes.items():
            parts.append(name if value is inspect.Parameter.empty else f"{name}=d_{name}")
        return ", ".join(parts)

    def recorder_text(self) -> list[str]:
        row = self.row
        lines = [f"def {row.name}({self.signature()}):"]
        emit = lines.append
        self.masks: list[int] = []
        attributes = "".join(f", {n}={n}" for n in row.attributes)
        given = row.inputs[0] if row.variadic else "(" + "".join(f"{n}, " for n in row.inputs) + ")"
        if self.devices > 1:
            emit(f"    if elsewhere({given}):")
            emit(f"        return on_device(ROW, RECORDER, {given}, {self.given()})")
        if row.variadic:
            name = row.inputs[0]
            emit(f"    try: arrays = tuple([t._a for t in {name}])")
            emit("    except AttributeError: arrays = ()")
            mixed = " or [a for a in arrays if a.dtype is not arrays[0].dtype]"
            emit(f"    if not arrays{mixed if row.promote != 'none' else ''}:")
            emit(f"        {name} = operands(ROW, *{name})")
            emit(f"        arrays = tuple([t._a for t in {name}])")
            first, arrays = "arrays[0]", "*arrays"
        else:
            self.emit_arrays(lines)
            first, arrays = f"{row.inputs[0]}_a", ", ".join(f"{n}_a" for n in row.inputs)
        places = {"xp": "xp", **{n: f"{n}_a" for n in row.inputs}, **{n: n for n in row.attributes}}
        expression = forward_text(row, places)
        emit("    try:")
        call = f"FORWARD(MODULES[type({first})], {arrays}{attributes})"
        if has_kernel(row.name):
            self.scope["FORWARDS"] = Forwards(row)
            call = f"FORWARDS[type({first})]({arrays}{attributes})"
        elif expression is not None and len(expression) <= 200:
            call = expression.replace("xp.", f"MODULES[type({first})].")
        if not (row.view or has_kernel(row.name)):
            self.scope["LARGE_FORWARD"] = large_forward(row)
            large = f"LARGE_FORWARD({arrays}{attributes})"
            call = f"{large} if {first}.size >= LARGE and type({first}) is ndarray else {call}"
        emit(f"        out = {call}")
        emit("    except Exception as error:")
        emit(f"        return recover(ROW, RECORDER, error, {given}, {self.given()})")
        if self.multi and row.view:
            emit("    outs = out")  # views are arrays, what is computed may be a NumPy scalar
        elif self.multi:
            emit(
                f"    outs = tuple([o if type(o) is type({first}) else as_array({first}, o) for o "
                f"in out])"
            )
        else:
            emit(f"    if type(out) is not type({first}): out = as_array({first}, out)")
        emit("    m = get_modes()")
        self.emit_outputs(lines)
        condition = self.condition()
        if condition:
            emit(f"    if m.grad{condition}:")
            self.emit_nodes(lines)
            emit("    elif m.inference:")
        else:
            emit("    if m.inference:")
        emit(f"        mark_inference({'ts' if self.multi else '(t,)'})")
        emit("    return ts" if self.multi else "    return t")
        if self.masks:
            lines.insert(1, "    global " + ", ".join(f"K{mask}" for mask in self.masks))
        return lines

    def emit_arrays(self, lines: list[str]) -> None:
        row, inputs = self.row, self.inputs
        required = [n for n in inputs if n not in row.optional]
        if required:
            lines.append("    try: " + "; ".join(f"{n}_a = {n}._a" for n in required))
            lines.append(f"    except AttributeError: {required[0]}_a = None")
        tests = [f"{required[0]}_a is None"] if required else []
        first = f"{inputs[0]}_a" if inputs else ""
        if row.promote != "none":
            tests += [f"{n}_a.dtype is not {first}.dtype" for n in required[1:]]
        if row.promote == "float":
            tests.append(f'{first}.dtype.kind not in "fc"')
        if tests:
            lines.append(f"    if {' or '.join(tests)}:")
            call = f"operands(ROW, {', '.join(inputs)})"
            if row.promote in ("arith", "float") and len(inputs) == 2:
                call = f"with_number({', '.join(inputs)}) or {call}"
            if self.operator:
                call = call.replace("operands(ROW", "operator_operands(ROW")
                lines.append(f"        found = {call}")
                lines.append(f"        if {refusal(row)}: return found")
                call = "found"
            lines.append(f"        {', '.join(inputs)}, = {call}")
            lines += [f"        {n}_a = {n}._a" for n in required]
        if row.takes is not None:  # the two common dtypes cost an identity each
            known = "" if "f" not in row.takes else "d is not F4 and d is not F8 and "
            lines.append(f"    d = {first}.dtype")
            lines.append(f"    if {known}d.kind not in {row.takes!r}: refuse_dtype(ROW, d)")
        for n in inputs:
            if n in row.optional:
                lines.append(f"    {n}_a = None if {n} is None else array_of(ROW, {n!r}, {n})")

    def given(self) -> str:
        """The attributes of a call, as the text of a dict."""
        return "{" + ", ".join(f"{n!r}: {n}" for n in self.row.attributes) + "}"

    def emit_outputs(self, lines: list[str]) -> None:
        emit = lines.append
        if self.multi:
            made = "tuple([make(o) for o in outs])"
            if self.row.view:
                made = f"view_outputs(outs, {self.inputs[0]}, ROW, {self.given()}, m)"
            emit(f"    ts = {made}")
            return
        emit(
            "    t = new(Tensor); t._a = out; t._v = None; t._view = None; t._slot = None; t._nr "
            "= 0; t._node = None"
        )
        if self.row.view:
            emit(f"    derive(t, {self.inputs[0]}, ROW, {self.given()}, m)")

    def condition(self) -> str:
        """The test that some input may need a gradient; a stale view may without knowing yet."""
        if not self.differentiable:
            return ""
        if self.row.variadic:
            return f" and any([edge_of(t) is not None for t in {self.inputs[0]}])"
        tests = []
        for n in self.differentiable:
            test = f"{n}._node is not None or {n}._view is not None"
            tests.append(f"{n} is not None and ({test})" if n in self.row.optional else test)
        floating = ""
        if "dtype" in self.row.attributes:
            floating = f" and {'outs[0]' if self.multi else 'out'}.dtype.kind in 'fc'"
        return f" and ({' or '.join(tests)}){floating}"

    def emit_nodes(self, lines: list[str]) -> None:
        pad = "        "
        row = self.row
        if row.variadic:
            name = row.inputs[0]
            lines.append(f"{pad}needs = tuple([t._node is not None for t in {name}])")
            lines.append(
                f"{pad}edges = tuple([e for t in {name} if t._node is not None for e in (t._node, "
                f"t._nr)])"
            )
            self.emit_node(lines, pad, 1, "edges")
            return
        for n in self.differentiable:
            guard = f"{n} is not None and " if n in row.optional else ""
            # a view, or the alias at a barrier: refreshed when its base has another node since
            lines.append(f"{pad}if {guard}(v := {n}._view) is not None and (")
            lines.append(f"{pad}    v.base._node is not v.base_node or v.base._view is not None")
            lines.append(f"{pad}): refresh({n})")
            lines.append(
                f"{pad}{n}_e = {n}._node"
                + (f" if {n} is not None else None" if n in row.optional else "")
            )
        count = len(self.differentiable)
        if not self.masked:
            edges = " + ".join(
                f"(({n}_e, {n}._nr) if {n}_e is not None else ())" for n in self.differentiable
            )
            needs = "".join(
                f"{n}_e is not None, " if n in self.differentiable else "False, "
                for n in self.inputs
            )
            lines.append(f"{pad}needs = ({needs})")
            lines.append(f"{pad}if any(needs):")
            self.emit_node(lines, pad + "    ", (1 << count) - 1, edges)
            return
        self.emit_masks(lines, pad, list(self.differentiable), 0)

    def emit_masks(self, lines: list[str], pad: str, left: list[str], mask: int) -> None:
        """Nested tests for each input, down to the node of exactly the inputs that have an edge."""
        if not left:
            names = [n for i, n in enumerate(self.differentiable) if mask >> i & 1]
            if mask:
                self.emit_node(
                    lines, pad, mask, "(" + ", ".join(f"{n}_e, {n}._nr" for n in names) + ")"
                )
            else:
                lines.append(f"{pad}pass")
            return
        bit = 1 << self.differentiable.index(left[0])
        lines.append(f"{pad}if {left[0]}_e is not None:")
        self.emit_masks(lines, pad + "    ", left[1:], mask | bit)
        lines.append(f"{pad}else:")
        self.emit_masks(lines, pad + "    ", left[1:], mask)

    def emit_node(self, lines: list[str], pad: str, mask: int, edges: str) -> None:
        """The node of one mask: its class is made when first recorded."""
        row = self.row
        emit = lines.append
        self.scope.setdefault(f"K{mask}", None)
        self.masks.append(mask)
        emit(f"{pad}if K{mask} is None: K{mask} = make_class({mask})")
        emit(f"{pad}node = K{mask}(); node.seq = seq(); node.hooks = None; node.edges = {edges}")
        if self.multi and row.view:
            x = f"{self.inputs[0]}_a"
            emit(f"{pad}node.shapes = tuple([o.shape for o in outs])")
            emit(f"{pad}node.dtype = {x}.dtype; node.array_type = type({x})")
        elif self.multi:
            meta = "pack(TensorMeta, (o.shape, o.dtype, type(o)))"
            emit(f"{pad}node.metas = tuple([{meta} for o in outs])")
        else:
            emit(f"{pad}node.shape = out.shape; node.dtype = out.dtype")
        if not self.masked:
            emit(f"{pad}node.needs = needs")
        parts = [self.emit_save(lines, pad, n) for n in self.plan.save_list(mask)]
        emit(f"{pad}node.saved = ({''.join(p + ', ' for p in parts)})")
        if self.devices:
            out = "outs[0]" if self.multi else "out"
            emit(f"{pad}if type({out}) is not ndarray: note_stream(node, {out})")
        if self.multi and row.view:
            emit(f"{pad}for v, t in enumerate(ts): t._node = node; t._nr = v")
        elif self.multi:
            emit(f"{pad}attach(ts, node, {row.differentiable!r})")
        else:
            emit(f"{pad}t._node = node")
        if Watching.started:
            tensors = "".join(f"{self.tensor_of(n)}, " for n in self.plan.saved_tensors(mask))
            created = "" if tensors else " and m.watch.created"
            emit(f"{pad}if m.watch is not None{created}: watched(m.watch, node, ({tensors}))")

    def tensor_of(self, n: str) -> str:
        """The Tensor that a saved name stands for (variadic: the tuple of them)."""
        if not is_output(n):
            return n
        return f"ts[{n[3:]}]" if n[3:] else "t"

    def emit_save(self, lines: list[str], pad: str, n: str) -> str:
        """Emit what saving needs; the expression(s) that go into node.saved."""
        row = self.row
        if n.endswith("_shape") and n[:-6] in self.inputs:
            source = n[:-6]
            if row.variadic:
                return "tuple([a.shape for a in arrays])"
            return (
                f"{source}_a.shape"
                if source not in row.optional
                else f"None if {source} is None else {source}_a.shape"
            )
        if row.variadic and n in self.inputs:
            return f"save_all({n})"
        if not self.plan.is_tensor(n):
            return n
        if is_output(n):
            tensor, array = self.tensor_of(n), f"outs[{n[3:]}]" if n[3:] else "out"
            lines.append(f"{pad}{n}_v = {tensor}._v")
            lines.append(f"{pad}if {n}_v is None: {n}_v = {tensor}._v = [0, None]")
            return f"{array}, {n}_v, {n}_v[0], None, 0"
        if n in row.optional:
            return f"*save_optional({n}, {n}_a)"
        lines.append(f"{pad}{n}_v = {n}._v")
        lines.append(f"{pad}if {n}_v is None: {n}_v = {n}._v = [0, None]")
        edge = f"{n}_e" if n in self.differentiable else f"{n}._node"
        return f"{n}_a, {n}_v, {n}_v[0], {edge}, {n}._nr"
