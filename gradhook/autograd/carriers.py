"""What gradients are made of in a run: bare arrays (first order) or Tensors (create_graph).

The engine is handed one carrier and never asks which it has. `TensorCarrier` lives beside Tensor
(tensor_carrier.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from gradhook import backend, kernels, memory
from gradhook.autograd.binding import Binding, make
from gradhook.autograd.compiled import blank
from gradhook.autograd.fusion import large_forward
from gradhook.autograd.graph import Node, TensorMeta, conform
from gradhook.hooks.declared import DeclaredHook
from gradhook.kernels import gradient
from gradhook.kernels.registry import with_kernel
from gradhook.ops.namespace import TableNamespace, table_namespace
from gradhook.ops.table import Op
from gradhook.storage import ADOPTED, LENT, bump, is_lent


class Carrier(Protocol):
    """Gradients of one kind."""

    recording: bool

    def apply(self, node: Node, g: Any) -> tuple[Any, ...]: ...
    def array(self, g: Any) -> Any: ...
    def conform(self, g: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any: ...
    def add(self, pending: list[Any], hooks: Sequence[DeclaredHook] = ()) -> Any: ...
    def zeros(self, meta: TensorMeta) -> Any: ...
    def copy(self, g: Any) -> Any: ...
    def lend(self, g: Any) -> Any: ...
    def take(self, result: Any) -> Any: ...
    def wrap(self, g: Any) -> Any: ...
    def accumulate(self, have: Any, g: Any, owned: bool) -> Any: ...
    def adopt(self, g: Any) -> Any: ...


class Namespaces(dict[type, TableNamespace]):
    """array class -> the table's functions over it."""

    def __missing__(self, kind: type) -> TableNamespace:
        found = self[kind] = table_namespace(backend.module_of_type(kind))
        return found


class Modules(dict[type, Any]):
    """array class -> its array module."""

    def __missing__(self, kind: type) -> Any:
        found = self[kind] = backend.module_of_type(kind)
        return found


class Forwards(dict[type, Callable[..., Any]]):
    """array class -> the forward of one op over it: its kernel where there is one."""

    def __init__(self, row: Op) -> None:
        self.row = row

    def __missing__(self, kind: type) -> Callable[..., Any]:
        module = ARRAY_MODULES[kind]
        forward: Callable[..., Any] = partial(self.row.forward, module)
        if module is np and not self.row.view:
            forward = large_forward(self.row)
        found = with_kernel(self.row.name, module, forward)
        self[kind] = found
        return found


FORMULA_NAMESPACES = Namespaces()
ARRAY_MODULES = Modules()


def lent(array: Any, node: Node | None = None, nr: int = 0) -> Any:
    """A Tensor whose Storage is lent: a hook may keep it, so it is copied before it is written."""
    t = blank(Binding.tensor)
    t._a = array
    t._v = [0, LENT]
    t._node = node
    t._nr = nr
    t._view = None
    t._slot = None
    return t


class ArrayCarrier:
    """Gradients are bare arrays; nothing is recorded."""

    recording = False

    @staticmethod
    def apply(node: Node, g: Any) -> tuple[Any, ...]:
        return node.backward(g)

    @staticmethod
    def array(g: Any) -> Any:
        return g

    @staticmethod
    def conform(g: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        if isinstance(g, np.generic):  # NumPy's 0-d arithmetic returns scalars, CuPy's arrays
            g = np.asarray(g)
        if g.shape == shape and g.dtype == dtype:
            return g
        g = conform(FORMULA_NAMESPACES[type(g)], g, shape, dtype)
        return np.asarray(g) if isinstance(g, np.generic) else g  # a sum to one element

    @staticmethod
    def add(pending: list[Any], hooks: Sequence[DeclaredHook] = ()) -> Any:
        """The sum of the pending gradients after declared hooks, in a fresh buffer, left to right:
        on CuPy arrays in one launch.
        """
        if not hooks:
            return kernels.accumulate(pending)
        first = pending[0]
        if gradient.takes(first):
            return gradient.fused(pending, [s for h in hooks for s in h.stages(first)])
        g = kernels.accumulate(pending)
        for hook in hooks:
            g = hook.applied(g)
        return g

    @staticmethod
    def zeros(meta: TensorMeta) -> Any:
        return ARRAY_MODULES[meta.array_type].zeros(meta.shape, meta.dtype)

    @staticmethod
    def copy(g: Any) -> Any:
        return g.copy()

    lend = staticmethod(lent)

    @staticmethod
    def take(result: Any) -> Any:
        """The gradient a hook returned or edited."""
        return result._a

    wrap = staticmethod(make)

    @staticmethod
    def adopt(g: Any) -> Any:
        """The new .grad: `g`, which hooks hold as lent Tensors, until the first write to it."""
        if not g.flags.c_contiguous:
            return make(g.copy())
        t = make(g)
        t._v = [0, ADOPTED]
        return t

    @staticmethod
    def accumulate(have: Any, g: Any, owned: bool) -> Any:
        """The new .grad: `g` itself when nobody else holds it, a copy of it, or added in place
        into the old one. An old one that a hook holds, too, gets new memory.
        """
        if have is None:
            return make(g if owned else kernels.accumulate([g]))
        a = have._a
        if is_lent(have._v):
            have._a, have._v = a + g, [have._v[0] + 1, None]
            return have
        if a.flags.c_contiguous or not memory.has_internal_overlap(a):
            ARRAY_MODULES[type(a)].add(a, g, out=a)
            bump(have)
            return have
        return make(a + g)


ARRAYS = ArrayCarrier()
