"""Transfers of batches: to page-locked memory, and to a device without waiting.

Trees are those of gradhook.nn.tree: containers, dataclasses, and what register_pytree_node adds.
"""

from __future__ import annotations

from typing import Any

from gradhook import backend, streams
from gradhook.autograd.binding import make
from gradhook.autograd.views import edge_of
from gradhook.nn import tree
from gradhook.tensor import Tensor


def pin_memory(batch: Any) -> Any:
    """The batch with its CPU tensors copied to page-locked memory, from which copies to a device
    are fastest. An object with a method pin_memory() is asked. DeviceError without CUDA.
    """
    return tree.map(_pinned, batch)


def _pinned(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        own = getattr(leaf, "pin_memory", None)
        return own() if callable(own) else leaf
    if leaf.is_cuda or edge_of(leaf) is not None:
        return leaf
    return make(streams.pinned_copy(leaf._a))


class Arrival:
    """A batch on its way to a device.

    Tensors on the CPU without history are copied to pinned memory and from there on a side stream,
    into memory of that stream: the copy waits for nothing that is computed now, and the host for
    nothing at all. Other tensors go by `to(device)`; other leaves stay.
    """

    def __init__(self, batch: Any, device: backend.device) -> None:
        self.device = device
        leaves, self.spec = tree.flatten(batch)
        self.leaves = [self._sent(leaf) for leaf in leaves]

    def _sent(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.is_cuda or edge_of(leaf) is not None or self.device is backend.CPU:
            return leaf.to(self.device)
        return streams.upload(leaf._a, self.device)

    def batch(self) -> Any:
        """The batch, for the device's current stream, which waits for the copies."""
        return tree.unflatten(self.spec, [self._arrived(leaf) for leaf in self.leaves])

    @staticmethod
    def _arrived(leaf: Any) -> Any:
        return make(leaf.array()) if isinstance(leaf, streams.Upload) else leaf
