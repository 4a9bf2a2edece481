"""Tensor: an array with history. What is not generated from the op table (methods.py adds those).

Slots: `_a` the bare array; `_v` its version cell (None until needed, storage.py); `_node`, `_nr` the edge its gradient
goes to (AccumulateGrad for a leaf that requires grad, None without gradient); `_view` where it is a view; `_slot` what
it keeps about its gradient. Source of names and behaviour: torch.Tensor.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradhook import backend, dtypes, printing
from gradhook.autograd import api, binding, record
from gradhook.autograd.graph import AccumulateGrad, GradientSlot, Node, hook_table
from gradhook.autograd.views import alias, edge_of
from gradhook.hooks.handle import RemovableHandle
from gradhook.hooks.registry import HookTable
from gradhook.methods import TensorMethods
from gradhook.size import Size
from gradhook.storage import INFERENCE, Storage, storage_in


class Tensor(TensorMethods):
    """A multi-dimensional array of one dtype on one device, with automatic differentiation.

    Made by `gradhook.tensor`, `as_tensor`, `from_numpy`, `zeros`, ...; operations on it return Tensors.
    """

    __slots__ = ("__dict__", "__weakref__", "_a", "_node", "_nr", "_slot", "_v", "_view")
    __array_ufunc__ = None  # ndarray * tensor asks the tensor
    __array_priority__ = 1000

    def __new__(cls, data: Any = (), *, device: Any = None) -> Any:
        """torch.Tensor(data): of the default dtype; use gradhook.tensor. Subclasses are made by `as_subclass`."""
        from gradhook.creation import tensor, zeros

        made = zeros(data, device=device) if isinstance(data, int) else tensor(data, dtype=dtypes.get_default_dtype())
        return made.as_subclass(cls)

    def as_subclass(self, cls: type) -> Any:
        """The same array, version and history as an object of a Tensor subclass."""
        made = object.__new__(cls)
        for name in ("_a", "_node", "_nr", "_view", "_slot"):
            setattr(made, name, getattr(self, name))
        made._v = binding.cell_of(self)
        return made

    # ---- what it is ------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        return Size(self._a.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension."""
        return Size(self._a.shape) if dim is None else self._a.shape[self._dim(dim)]

    def _dim(self, dim: int) -> int:
        n = max(self._a.ndim, 1)
        if not -n <= dim < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
        return dim

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.of(self._a.dtype)

    @property
    def device(self) -> backend.device:
        return backend.device_of(self._a)

    @property
    def ndim(self) -> int:
        return int(self._a.ndim)

    dim = ndimension = lambda self: int(self._a.ndim)

    def numel(self) -> int:
        """The number of elements."""
        return int(self._a.size)

    nelement = numel

    @property
    def itemsize(self) -> int:
        return int(self._a.itemsize)

    element_size = lambda self: int(self._a.itemsize)  # noqa: E731

    @property
    def nbytes(self) -> int:
        return int(self._a.nbytes)

    def stride(self, dim: int | None = None) -> Any:
        """Steps between elements of each dimension, in elements."""
        steps = tuple(s // self._a.itemsize for s in self._a.strides)
        return steps if dim is None else steps[self._dim(dim)]

    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order."""
        return bool(self._a.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        return bool(self._a.dtype.kind == "f")

    def is_complex(self) -> bool:
        return bool(self._a.dtype.kind == "c")

    @property
    def is_cuda(self) -> bool:
        return backend.is_cupy(self._a)

    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return self._v is INFERENCE

    def get_device(self) -> int:
        """The CUDA device's index, -1 on the CPU."""
        index = self.device.index
        return -1 if index is None else index

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._a.data.ptr if self.is_cuda else self._a.__array_interface__["data"][0])

    # ---- history ---------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        return edge_of(self) is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start or stop recording on this leaf. Errors: RuntimeError for integer dtypes and for non-leaf tensors."""
        if requires_grad == (edge_of(self) is not None):
            return self
        if not requires_grad:
            if self._node is not None and not self._node.leaf:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            self._slot_made().parked = self._node  # its hooks come back with requires_grad_(True)
            self._node = None
            return self
        if not dtypes.is_differentiable(self._a.dtype):
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients, found "
                f"{self.dtype!r}; cast with .float() first"
            )
        if self._v is INFERENCE:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed; clone() it first."
            )
        slot = self._slot_made()
        self._node, slot.parked = slot.parked or self._accumulator(), None
        self._nr = 0
        return self

    def _accumulator(self) -> AccumulateGrad:
        slot = self._slot_made()
        slot.leaf = weakref.ref(self)
        slot.array = self._a
        return AccumulateGrad(slot, self._a.shape, self._a.dtype)

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
        """The accumulated gradient. A non-leaf has one only after retain_grad(); reading it warns otherwise."""
        slot = self._slot
        if slot is None or slot.grad is None:
            node = self._node
            if node is not None and not node.leaf and not (slot is not None and slot.retains):
                warnings.warn(
                    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                    "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated "
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
        if not isinstance(value, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._a.shape != self._a.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: expected {list(self._a.shape)}, got {list(value._a.shape)}"
            )
        if value._a.dtype != self._a.dtype:
            raise RuntimeError(
                f"assigned grad has data of a different type: expected {self.dtype!r}, got {value.dtype!r}"
            )
        if value.device != self.device:
            raise RuntimeError(f"assigned grad has data located on a different device: {value.device}, not {self.device}")
        self._slot_made().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Gradients of this tensor for the leaves, added to their .grad. See `gradhook.autograd.backward`."""
        api.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in .grad. Errors: RuntimeError when it requires no grad."""
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

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """`hook(grad) -> Tensor or None` once a backward run, with the summed gradient; a Tensor replaces it.

        Errors: RuntimeError when the tensor requires no grad; TypeError for what is not callable.
        """
        node = edge_of(self)
        if node is None:
            raise RuntimeError(
                "cannot register a hook on a tensor that doesn't require gradient; call requires_grad_() first"
            )
        return hook_table(node, self._nr).add(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """`hook(param) -> None` after .grad of this leaf was accumulated by `backward`.

        Errors: RuntimeError for a non-leaf or a tensor that requires no grad.
        """
        node = edge_of(self)
        if node is None:
            raise RuntimeError(
                "cannot register a hook on a tensor that doesn't require gradient; call requires_grad_() first"
            )
        if not node.leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
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
        return alias(self)

    def detach_(self) -> Tensor:
        """Drop the history of this tensor. Errors: RuntimeError for a view."""
        if self._view is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if self._node is not None:
            self._node, self._nr = None, 0
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without history and with a version of its own, as torch's."""
        return binding.make(self._a)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data must be set to a Tensor, found {type(value).__name__}")
        self._a = value._a
        self._view = None
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

    # ---- values ----------------------------------------------------------------------------
    def storage(self) -> Storage:
        """The Storage of this tensor's array, made on first demand."""
        cell = binding.cell_of(self)
        if cell is INFERENCE or self._view is not None:
            return Storage(self._a)
        return storage_in(cell, self._a)

    untyped_storage = storage

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The values as a NumPy array that shares memory (a lent gradient: read-only).

        force: also from a CUDA device (a counted copy) and from a tensor with history.
        Errors: RuntimeError with history, TypeError on a device, unless force.
        """
        if not force and edge_of(self) is not None:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.is_cuda and not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                "memory first."
            )
        return self._exported(self._host())

    def _exported(self, host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        cell = self._v
        if cell is not None and cell is not INFERENCE and cell[1] is not None and cell[1].lent:
            host = host.view()
            host.flags.writeable = False
        return host

    def _host(self) -> np.ndarray[Any, Any]:
        """The values in host memory; a device read is counted by profiler.transfers()."""
        if type(self._a) is np.ndarray:
            return self._a
        return self.storage().host()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        a = self.numpy()
        return np.array(a, dtype=dtype, copy=copy) if copy is not None or dtype is not None else a

    def item(self) -> Any:
        """The one element as a Python number. Errors: RuntimeError for more or fewer elements."""
        if self._a.size != 1:
            raise RuntimeError(f"a Tensor with {self._a.size} elements cannot be converted to Scalar")
        return self._host().item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor."""
        return self._host().tolist()

    def __bool__(self) -> bool:
        if self._a.size != 1:
            kind = "no values" if self._a.size == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self._a.dtype.kind not in "iub" or self._a.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if self._a.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self._a.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if self._a.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(record.ops.unbind(self, axis=0))

    def __contains__(self, element: Any) -> bool:
        return bool(record.ops.equal(self, element)._a.any())

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._a.ndim == 0 and spec else object.__format__(self, spec)

    def __repr__(self) -> str:
        return self._printed("tensor(")

    def _printed(self, prefix: str) -> str:
        suffixes = []
        if self.is_cuda:
            suffixes.append(f"device='{self.device}'")
        node = edge_of(self)
        if node is None:
            history = []
        else:
            history = ["requires_grad=True"] if node.leaf else [f"grad_fn=<{node.name()}>"]
        return printing.tensor_repr(self._host(), prefix, suffixes, history)

    # ---- copies ----------------------------------------------------------------------------
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy with its .grad. Errors: RuntimeError for a non-leaf, as PyTorch."""
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment; use .detach().clone() for a tensor with history."
            )
        if id(self) in memo:
            return memo[id(self)]
        made = self._rebuilt(self._a.copy(), self._node is not None)
        memo[id(self)] = made
        if self._slot is not None and self._slot.grad is not None:
            made.grad = copy.deepcopy(self._slot.grad, memo)
        made.__dict__.update(copy.deepcopy({k: v for k, v in self.__dict__.items() if k[0] != "_"}, memo))
        return made

    def _rebuilt(self, array: Any, requires_grad: bool) -> Any:
        made = binding.make(array).as_subclass(type(self))
        return made.requires_grad_() if requires_grad else made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "only leaf tensors can be pickled; use .detach() for a tensor with history (its graph is not saved)"
            )
        if self._backward_hooks:
            warnings.warn(
                "backward hooks on a tensor are not serialized; register them again after loading", stacklevel=3
            )
        state = {k: v for k, v in self.__dict__.items() if k[0] != "_"}
        return _unpickled, (type(self), self._host(), str(self.device), self._node is not None, state)


def _unpickled(cls: type, host: Any, device: str, requires_grad: bool, state: dict[str, Any]) -> Any:
    array = backend.to_device(host, device if device == "cpu" or backend.is_available() else "cpu")
    made = binding.make(array).as_subclass(cls)
    made.__dict__.update(state)
    return made.requires_grad_() if requires_grad else made


binding.bind(Tensor)
