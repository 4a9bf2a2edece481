"""The half of Tensor that is about its gradient: requires_grad, .grad, backward, hooks, detach."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.autograd import api, binding
from gradhook.autograd.fields import TensorFields
from gradhook.autograd.graph import AccumulateGrad, GradientSlot, Node, hook_table
from gradhook.autograd.hooked_views import note_hooked_view
from gradhook.autograd.host_hooks import host_hook
from gradhook.autograd.inplace import unlend
from gradhook.autograd.node_streams import note_stream
from gradhook.autograd.views import alias, edge_of
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.registry import HookTable
from gradhook.methods import TensorMethods
from gradhook.modes import is_inference_mode_enabled
from gradhook.storage import INFERENCE

if TYPE_CHECKING:
    from gradhook.tensor import Tensor


class TensorHistory(TensorMethods, TensorFields):
    """What a tensor knows of its place in the graph; its slots are explained in tensor.py."""

    __slots__ = ()

    _a: Any
    _node: Any
    _nr: int
    _slot: GradientSlot | None
    _v: Any
    _view: Any

    @property
    def requires_grad(self) -> bool:
        return edge_of(self) is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start or stop recording on this leaf. Errors: RuntimeError for integer dtypes and for
        non-leaf tensors.
        """
        if requires_grad == (edge_of(self) is not None):
            return self  # type: ignore[return-value]
        if not requires_grad:
            if self._node is not None and not self._node.leaf:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to "
                    "use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = "
                    "var.detach()."
                )
            self._slot_made().parked = self._node  # its hooks come back with requires_grad_(True)
            self._node = None
            return self  # type: ignore[return-value]
        if not dtypes.is_differentiable(self._a.dtype):
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients, found "
                f"{dtypes.of(self._a.dtype)!r}; cast with .float() first"
            )
        if self._v is INFERENCE and not is_inference_mode_enabled():
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed; clone() it first."
            )
        slot = self._slot_made()
        self._node, slot.parked = slot.parked or self._accumulator(), None
        self._nr = 0
        return self  # type: ignore[return-value]

    def _accumulator(self) -> AccumulateGrad:
        slot = self._slot_made()
        slot.leaf = weakref.ref(self)
        slot.array = self._a
        node = AccumulateGrad(slot, self._a.shape, self._a.dtype)
        if type(self._a) is not np.ndarray and backend.is_cupy(self._a):
            note_stream(node, self._a)
        return node

    def _slot_made(self) -> GradientSlot:
        if self._slot is None:
            self._slot = GradientSlot()
        return self._slot

    @property
    def is_leaf(self) -> bool:
        node = edge_of(self)
        return node is None or node.leaf

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it, None for a leaf."""
        node = edge_of(self)
        return None if node is None or node.leaf else node

    @property
    def output_nr(self) -> int:
        return int(self._nr)

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient. A non-leaf has one only after retain_grad(); reading it warns
        otherwise.
        """
        slot = self._slot
        if slot is None or slot.grad is None:
            node = self._node
            if node is not None and not node.leaf and not (slot is not None and slot.retains):
                warnings.warn(
                    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                    "Its .grad attribute "
                    "won't be populated during autograd.backward(). If you indeed want the .grad "
                    "field to be populated "
                    "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                    stacklevel=2,
                )
            return None
        return slot.grad  # type: ignore[no-any-return]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self._slot is not None:
                self._slot.grad = None
            return
        if not isinstance(value, binding.Binding.tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._a.shape != self._a.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: expected {list(self._a.shape)}, got "
                f"{list(value._a.shape)}"
            )
        if value._a.dtype != self._a.dtype:
            raise RuntimeError(
                "assigned grad has data of a different type: expected "
                f"{dtypes.of(self._a.dtype)!r}, got {value.dtype!r}"
            )
        if backend.device_of(value._a) != backend.device_of(self._a):
            raise RuntimeError(
                f"assigned grad has data located on a different device: {value.device}, not "
                f"{backend.device_of(self._a)}"
            )
        self._slot_made().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Gradients of this tensor for the leaves, added to their .grad. See
        `gradhook.autograd.backward`.
        """
        api.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in .grad. Errors: RuntimeError when it requires no
        grad.
        """
        node = edge_of(self)
        if node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not node.leaf:
            slot = self._slot_made()
            slot.retains = True
            node.hook_set().retains[self._nr] = slot

    @property
    def retains_grad(self) -> bool:
        return self._slot is not None and self._slot.retains and not self.is_leaf

    def register_hook(
        self, hook: Callable[[Any], Any], *, host: bool = False, follow_inplace: bool = False
    ) -> RemovableHandle:
        """`hook(grad) -> Tensor or None` once a backward run, with the sum of the gradients that
        arrived in it, before it is used or added to .grad; a Tensor of the same shape, dtype and
        device replaces it. In the order of registration. grad is None when the node runs for
        another of its outputs only. host: the hook observes a NumPy copy, which the device does not
        wait for, and returns nothing.
        follow_inplace: after an in-place write the hook is about the new version of the tensor, as
        retain_grad is; else it stays with the old one, and where that has no gradient any more (a
        view whose memory was written) the write warns with HookLostWarning.

        Returns the handle that removes it. Errors: RuntimeError when the tensor requires no grad;
        TypeError for what is not callable; in the backward RuntimeError for a result that does not
        fit, TypeError for one that is no Tensor. Source: torch.Tensor.register_hook; host and
        follow_inplace are gradhook's.
        """
        node = edge_of(self)
        if node is None:
            raise RuntimeError(
                "cannot register a hook on a tensor that doesn't require gradient; call "
                "requires_grad_() first"
            )
        if self._view is not None and self._view.steps:
            note_hooked_view(self)
        flags = ("follow_inplace",) if follow_inplace else ()
        return hook_table(node, self._nr).add(host_hook(hook, host), flags=flags)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """`hook(param) -> None` each time `backward` has added to .grad of this leaf, which it gets
        as the very object; it may change .grad or set it to None. Not by `autograd.grad`, and not
        when no gradient came.

        Returns the handle that removes it. Errors: RuntimeError for a non-leaf or a tensor that
        requires no grad, and in the backward when it returns anything. Source:
        torch.Tensor.register_post_accumulate_grad_hook.
        """
        node = edge_of(self)
        if node is None:
            raise RuntimeError(
                "cannot register a hook on a tensor that doesn't require gradient; call "
                "requires_grad_() first"
            )
        if not node.leaf:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        slot = self._slot_made()
        if slot.post_accumulate is None:
            slot.post_accumulate = HookTable()
        return slot.post_accumulate.add(hook)

    @property
    def _backward_hooks(self) -> HookTable | None:
        node = self._node
        return None if node is None or node.hooks is None else node.hooks.tensor.get(self._nr)

    @property
    def _post_accumulate_grad_hooks(self) -> HookTable | None:
        return None if self._slot is None else self._slot.post_accumulate

    def detach(self) -> Tensor:
        """The same memory without history; in-place writes are seen by both."""
        made: Tensor = alias(self)
        return made

    def detach_(self) -> Tensor:
        """Drop the history of this tensor. Errors: RuntimeError for a view."""
        if self._view is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if self._node is not None:
            self._node, self._nr = None, 0
        return self  # type: ignore[return-value]

    @property
    def data(self) -> Tensor:
        """The same memory without history and with a version of its own, as torch's."""
        unlend(self)
        made: Tensor = binding.make(self._a)
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, binding.Binding.tensor):
            raise TypeError(f"data must be set to a Tensor, found {type(value).__name__}")
        self._a = value._a
        self._v = self._view = None  # other memory: what was saved or viewed of the old stays so
        if self._slot is not None and self._node is not None and self._node.leaf:
            self._slot.array = value._a
            self._node.shape, self._node.dtype = value._a.shape, value._a.dtype

    @property
    def _version(self) -> int:
        """How often the memory was written in place."""
        return 0 if self._v is None else int(self._v[0])

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None
