"""Parcels: objects from one process to another, over a connection.

Pickled with protocol 5; the buffers of arrays go apart. What is small goes through the connection.
The rest goes through an anonymous file in memory (Linux: memfd_create), whose descriptor is sent:
it has no name and no owner, so nothing is left over whichever process dies, and the size of
/dev/shm is no limit. The reader copies it into memory of its own, so batches that are kept hold no
descriptors. Elsewhere all of it goes through the connection.
"""

from __future__ import annotations

import os
import pickle
from io import BytesIO
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from gradhook.tensor import Tensor

INLINE = 8192  # bytes; more than that is not written to a connection that may be full
_MEMORY_FILES = hasattr(os, "memfd_create")


class Parcel(NamedTuple):
    """An object, packed. note: what goes through the connection. parts: what goes beside it."""

    note: bytes
    parts: list[memoryview]


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Errors: RuntimeError for a tensor with history, which would be a leaf over there."""
        if isinstance(obj, Tensor) and not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
                "autograd does not support crossing process boundaries.  If you just want to "
                "transfer the data, call detach() on the tensor before serializing (e.g., "
                "putting it on the queue)."
            )
        return NotImplemented


def pack(label: Any, thing: Any) -> Parcel:
    """Pack an object. label: a small one, which arrives even where the other cannot be unpacked.
    Errors: what pickle raises.
    """
    buffers: list[pickle.PickleBuffer] = []
    body = BytesIO()
    _Pickler(body, 5, buffer_callback=buffers.append).dump(thing)
    parts = [body.getbuffer(), *[b.raw() for b in buffers]]
    if not _MEMORY_FILES or sum(part.nbytes for part in parts) <= INLINE:
        return Parcel(pickle.dumps((label, None, [bytearray(part) for part in parts]), 5), [])
    return Parcel(pickle.dumps((label, [part.nbytes for part in parts], []), 5), parts)


def send(connection: Connection[Any, Any], parcel: Parcel) -> None:
    """Send what `pack` made. Errors: ConnectionError when the reader is gone, OSError when memory
    is full, and then nothing was sent.
    """
    if not parcel.parts:
        connection.send_bytes(parcel.note)
        return
    file = os.memfd_create("gradhook-batch")
    try:
        place = 0
        for part in parcel.parts:
            while part.nbytes:  # one call writes 2 GB at most
                written = os.pwrite(file, part, place)
                place, part = place + written, part[written:]
        connection.send_bytes(parcel.note)
        try:
            reduction.send_handle(connection, file, 0)
        except OSError as error:  # the reader waits for what will not come
            raise ConnectionAbortedError(f"a batch's file could not be sent: {error}") from error
    finally:
        os.close(file)


def receive(connection: Connection[Any, Any]) -> tuple[Any, list[Any]]:
    """Wait for a parcel: its label, and what `unpack` makes the object of. Errors: EOFError or
    OSError when the sender is gone.
    """
    label, sizes, parts = pickle.loads(connection.recv_bytes())
    if sizes is not None:
        file = reduction.recv_handle(connection)
        try:
            place = 0
            for size in sizes:
                parts.append(np.empty(size, np.uint8))
                _fill(file, parts[-1].data, place)
                place += size
        finally:
            os.close(file)
    return label, parts


def _fill(file: int, part: memoryview, place: int) -> None:
    while part.nbytes:
        read = os.preadv(file, [part], place)
        place, part = place + read, part[read:]


def unpack(parts: list[Any]) -> Any:
    """The object. Errors: what pickle raises."""
    return pickle.loads(parts[0], buffers=parts[1:])
