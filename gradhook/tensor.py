"""Tensor: an array with history. What is not generated from the op table (methods.py adds those).

Slots: `_a` the bare array; `_v` its version cell (None until needed, storage.py); `_node`, `_nr`
the edge its gradient goes to (AccumulateGrad for a leaf that requires grad, None without
gradient); `_view` where it is a view; `_slot` what it keeps about its gradient. Source of names
and behaviour: torch.Tensor.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradhook import backend, dtypes, printing
from gradhook.autograd import binding, record
from gradhook.autograd.inplace import unlend
from gradhook.autograd.views import edge_of
from gradhook.hooks.pickling import warn_if_has_hooks
from gradhook.size import Size
from gradhook.storage import INFERENCE, Storage, is_adopted, is_lent, storage_in
from gradhook.tensor_history import TensorHistory


class Tensor(TensorHistory):
    """A multi-dimensional array of one dtype on one device, with automatic differentiation.

    Made by `gradhook.tensor`, `as_tensor`, `from_numpy`, `zeros`, ...; operations on it return
    Tensors.
    """

    __slots__ = ("__dict__", "__weakref__")
    __array_ufunc__ = None  # ndarray * tensor asks the tensor
    __array_priority__ = 1000

    def __new__(cls, *data: Any, device: Any = None) -> Any:
        """torch.Tensor(data) or torch.Tensor(2, 3) (uninitialised), of the default dtype; for new
        code gradhook.tensor and gradhook.empty. Subclasses of existing tensors: `as_subclass`.
        """
        from gradhook.creation import empty, tensor

        if all(isinstance(n, int) for n in data):
            made = empty(*(data or (0,)), device=device)
        elif len(data) == 1:
            made = tensor(data[0], dtype=dtypes.get_default_dtype(), device=device)
        else:
            raise TypeError(f"Tensor(): expected sizes or one data argument, found {len(data)}")
        return made.as_subclass(cls)

    def as_subclass(self, cls: type) -> Any:
        """The same array, version and history as an object of a Tensor subclass."""
        made: Any = object.__new__(cls)
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
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got "
                f"{dim})"
            )
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
        return backend.address(self._a)

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
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if self.is_cuda and not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                f"copy the tensor to host "
                "memory first."
            )
        if is_adopted(self._v):
            unlend(self)
        return self._exported(self._host())

    def cupy(self) -> Any:
        """The CuPy array behind this tensor, no copy; call autograd.graph.increment_version after
        writing to it. Errors: TypeError on the CPU, RuntimeError with history.
        """
        if not self.is_cuda:
            raise TypeError("a CPU tensor has no CuPy array; move it with .cuda(), or use .numpy()")
        return self._export("cupy()")

    def _export(self, how: str) -> Any:
        if edge_of(self) is not None:
            raise RuntimeError(
                f"Can't call {how} on Tensor that requires grad: what is computed outside gradhook "
                "is not recorded. Use tensor.detach() first."
            )
        if is_adopted(self._v):
            unlend(self)
        return self._a

    def __dlpack__(self, **options: Any) -> Any:
        """Share the memory with another array library. Errors: RuntimeError with history."""
        return self._export("__dlpack__()").__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._a.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """So that CuPy and others take a CUDA tensor without a copy. Errors: RuntimeError with
        history; AttributeError on the CPU."""
        if not self.is_cuda:
            raise AttributeError("a CPU tensor has no __cuda_array_interface__; use .numpy()")
        found: dict[str, Any] = self._export("__cuda_array_interface__").__cuda_array_interface__
        return found

    def _exported(self, host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if is_lent(self._v):
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
            raise RuntimeError(
                f"a Tensor with {self._a.size} elements cannot be converted to Scalar"
            )
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
        return (
            format(self.item(), spec)
            if self._a.ndim == 0 and spec
            else object.__format__(self, spec)
        )

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
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the "
                "moment; use .detach().clone() for a tensor with history."
            )
        if id(self) in memo:
            return memo[id(self)]
        made = self._rebuilt(self._a.copy(), self._node is not None)
        memo[id(self)] = made
        if self._slot is not None and self._slot.grad is not None:
            made.grad = copy.deepcopy(self._slot.grad, memo)
        made.__dict__.update(
            copy.deepcopy({k: v for k, v in self.__dict__.items() if k[0] != "_"}, memo)
        )
        return made

    def _rebuilt(self, array: Any, requires_grad: bool) -> Any:
        made = binding.make(array).as_subclass(type(self))
        return made.requires_grad_() if requires_grad else made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A tensor with history is a leaf afterwards, which requires a gradient, as in PyTorch."""
        warn_if_has_hooks(self)
        state = {k: v for k, v in self.__dict__.items() if k[0] != "_"}
        return _unpickled, (
            type(self),
            self._host(),
            str(self.device),
            self._node is not None,
            state,
        )


def _unpickled(
    cls: type, host: Any, device: str, requires_grad: bool, state: dict[str, Any]
) -> Any:
    array = backend.to_device(host, device if device == "cpu" or backend.is_available() else "cpu")
    made = binding.make(array).as_subclass(cls)
    made.__dict__.update(state)
    return made.requires_grad_() if requires_grad else made


binding.bind(Tensor)
