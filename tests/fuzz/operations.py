"""Every op of the table as a step of a program: its arrays are those of a row of op_cases, moved a
little by a register, and its results come back as a register of the common shape.

FEATURES say how an op is posed; none of them changes what comes out, so the same program without
them is an oracle.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from op_cases import Case, cases

import gradhook
from gradhook.autograd.record import ops
from gradhook.functions import RENAMED
from gradhook.ops.table import TABLE, Op

SHAPE = (2, 3)
MOVE = 0.01  # how far a register moves an array of a row: the rows keep this far from their kinks
FEATURES = ("view", "in-place", "hooked", "create_graph", "broadcast", "non-contiguous")
POSED = ("view", "in-place", "hooked", "broadcast", "non-contiguous")  # by `pose`
ROWS: dict[str, list[Case]] = cases()
KEYWORDS: dict[str, set[str]] = {}  # the keyword-only parameters of each public function
REFUSED = {("view_as_complex", "non-contiguous")}  # the pairs must lie side by side
# What PyTorch refuses or gives otherwise, each with its reason.
NO_TORCH = {
    "scatter_add": "its gradient for a source larger than the index has the index's shape",
    "sgn": "its gradient of real numbers is a tensor without storage, which hooks cannot read",
}


@dataclass(frozen=True)
class OpStep:
    """`made = run.op(name, row, register, features)`."""

    made: str
    name: str
    row: int
    register: str
    posed: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        found = [f"op {self.name}: {f}" for f in self.posed]
        return ("operation of the table", f"op {self.name}", *found)

    def lines(self) -> list[str]:
        words = f'"{self.name}", {self.row}, {self.register}, {list(self.posed)}'
        return [f"{self.made} = run.op({words})"]

    @property
    def case(self) -> Case:
        return ROWS[self.name][self.row]

    @property
    def smooth(self) -> bool:
        """Whether finite differences tell its derivative well."""
        return self.case.tolerance <= 1e-5 and has_gradient(TABLE[self.name])

    @property
    def on_torch(self) -> bool:
        """Whether torch has it as a function of these arrays."""
        c, row = self.case, TABLE[self.name]
        known = row.torch is not None and has_gradient(row) and self.name not in NO_TORCH
        return known and not (c.before or c.after)


def has_gradient(row: Op) -> bool:
    return row.composite or any(row.formulas.values())


# ---- one call over either library


@cache
def parameters(name: str) -> tuple[str, tuple[tuple[str, str | None], ...]]:
    """Path of the public function, and (its parameter, the op's attribute or None for a tensor)."""
    row = TABLE[name]
    path, _, rest = row.torch.partition("(")
    arguments = ast.parse(f"def f({rest}: pass").body[0].args
    star = [arguments.vararg] if arguments.vararg else []
    every = [*arguments.posonlyargs, *arguments.args, *star, *arguments.kwonlyargs]
    found = []
    for a in every:
        attribute = a.arg if a.arg in row.attributes else RENAMED.get(a.arg, a.arg)
        found.append((a.arg, attribute if attribute in row.attributes else None))
    KEYWORDS[name] = {a.arg for a in arguments.kwonlyargs}
    return path, tuple(found)


def called(lib: Any, name: str, c: Case, inputs: list[Any], in_place: bool = False) -> Any:
    """The public function on the inputs, or the table's recorder where there is none."""
    row = TABLE[name]
    if row.torch is None or any(x is None for x in inputs[: len(row.inputs) - len(row.optional)]):
        return getattr(ops, name)(*inputs, **c.attributes)
    path, names = parameters(name)
    tensors, others, left = list(inputs), dict(c.attributes), len(row.inputs)
    given: list[Any] = []
    options: dict[str, Any] = {}
    skipped = False
    for parameter, attribute in names:
        if attribute is None and (tensors or left > 0):
            left -= 1
            values = tensors if f"*{parameter}" in row.torch else tensors[:1]
            tensors = tensors[len(values) :]
        else:  # one of another name in torch (size for shape) is the next
            attribute = attribute or next(iter(others), None)
            attribute = "shape" if attribute not in others and parameter == "size" else attribute
            values = [others.pop(attribute)] if attribute in others else []
            if parameter == "dtype":
                values = [dtype_of(lib, v) for v in values]
        skipped = skipped or not values
        if values and (skipped or parameter in KEYWORDS[name]):
            options[parameter] = values[0]
        else:
            given += values
    if in_place:
        return getattr(given[0], path.rpartition(".")[2] + "_")(*given[1:], **options)
    return public(lib, path, given)(*given, **options)


def public(lib: Any, path: str, given: list[Any]) -> Any:
    """The function of a path, or the method where the library has none."""
    at = lib
    for part in path.split("."):
        at = getattr(at, part, None)
        if at is None:
            return lambda first, *rest, **options: getattr(first, part)(*rest, **options)
    return at


def dtype_of(lib: Any, value: Any) -> Any:
    return None if value is None else getattr(lib, str(gradhook.dtypes.of(value).name))


# ---- posing


def moved(lib: Any, array: Any, register: Any) -> Any:
    """An array of a row, each element moved by a bounded function of the register."""
    base = lib.tensor(array)
    count = int(np.prod(array.shape))
    if not count or not register.numel():
        return base + register.sum() * 0
    flat = register.reshape(-1).tanh() * MOVE
    places = lib.tensor(np.arange(count) % flat.shape[0])
    return base + flat[places].reshape(array.shape)


def posed(lib: Any, x: Any, features: list[str]) -> Any:
    """x by another way in memory and in the graph."""
    if "view" in features:
        x = lib.stack([x * 0.5, x])[1]
    if "broadcast" in features:
        x = x.unsqueeze(0).expand(2, *x.shape)[1]
    if "non-contiguous" in features and x.ndim:
        x = lib.stack([x, x * 0.5], -1)[..., 0]
    if "in-place" in features:
        whole = lib.stack([x, x])
        part = whole[1]
        part.mul_(1.0)
        x = whole[1]
    return x


def folded(lib: Any, results: Any) -> Any:
    """All results as one tensor of the common shape, bounded."""
    several = list(results) if isinstance(results, tuple | list) else [results]
    parts = []
    for t in several:
        t = (
            lib.view_as_real(t.resolve_conj() if lib is not gradhook else t)
            if t.is_complex()
            else t
        )
        parts.append(t.to(lib.float64).reshape(-1))
    flat = lib.cat(parts)
    count = flat.shape[0]
    if not count:
        return lib.zeros(SHAPE, dtype=lib.float64) + flat.sum()
    weights = lib.tensor(np.cos(np.arange(count)))
    total = (flat * weights).sum() * 0.1
    places = lib.tensor(np.arange(SHAPE[0] * SHAPE[1]) % count)
    return (flat[places].reshape(SHAPE) * 0.25 + total).tanh()


def pose(lib: Any, name: str, k: int, register: Any, features: list[str], watch: Any) -> Any:
    """The step itself: the row's arrays moved and posed, the call, what came of it. watch: called
    with each tensor that is to be hooked."""
    c, row = ROWS[name][k], TABLE[name]
    features = [f for f in features if (name, f) not in REFUSED]
    inputs: list[Any] = []
    for place, x in enumerate(c.inputs):
        if x is None:
            inputs.append(None)
        elif x.dtype.kind in "fc" and place not in c.constant:
            inputs.append(posed(lib, moved(lib, np.asarray(x), register), features))
        else:
            inputs.append(lib.tensor(np.asarray(x)))
    if c.before:
        inputs = list(c.before(*inputs))
    if "hooked" in features:
        for t in inputs:
            watch(t)
    own = "in-place" in features and fits_in_place(row, c)
    if own:
        inputs[0] = inputs[0].clone()
    found = called(lib, name, c, inputs, own)
    if "hooked" in features:
        for t in found if isinstance(found, tuple | list) else [found]:
            watch(t)
    return folded(lib, c.after(found) if c.after else found)


def fits_in_place(row: Op, c: Case) -> bool:
    """Whether the op's own in-place form takes the row: the result has the first input's shape and
    dtype."""
    if not row.inplace or row.view or row.torch is None or c.before or c.inputs[0] is None:
        return False
    plain = [None if x is None else gradhook.tensor(np.asarray(x)) for x in c.inputs]
    found = getattr(ops, row.name)(*plain, **c.attributes)
    same = isinstance(found, gradhook.Tensor) and found.shape == plain[0].shape
    return same and found.dtype == plain[0].dtype and row.name != "cast"
