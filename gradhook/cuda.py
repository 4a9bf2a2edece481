"""CUDA devices, streams, events and memory, with PyTorch's names (torch.cuda).

Without CUDA `is_available()` is False, `device_count()` 0, `synchronize()` and `empty_cache()` do
nothing; what needs a device raises a DeviceError that says why there is none.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from gradhook import backend, streams
from gradhook.backend import device_count as device_count
from gradhook.backend import is_available as is_available
from gradhook.kernels.users import ElementwiseKernel as ElementwiseKernel
from gradhook.kernels.users import RawKernel as RawKernel
from gradhook.streams import Event as Event
from gradhook.streams import Stream as Stream
from gradhook.streams import current_stream as current_stream
from gradhook.streams import default_stream as default_stream


class device:
    """`with gradhook.cuda.device(1):` makes a CUDA device the current one inside.

    "cuda" without an index means the current device; an op runs on the device of its inputs,
    whichever is current.
    """

    def __init__(self, device: Any) -> None:
        self.index = backend.resolved(device).index
        self._outer: list[int] = []

    def __enter__(self) -> Self:
        self._outer.append(backend.current_index())
        if self.index is not None:
            set_device(self.index)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        set_device(self._outer.pop())


def current_device() -> int:
    """The index of the current device."""
    return backend.current_index()


def set_device(device: Any) -> None:
    """Make a device the current one of this thread."""
    index = backend.resolved(device).index
    backend.cupy().cuda.Device(index).use()


def get_device_name(device: Any = None) -> str:
    """A device's name, such as "NVIDIA H100"."""
    return backend.device_name(_index(device))


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """A device's compute capability, (9, 0) for sm_90."""
    found = str(backend.cupy().cuda.Device(_index(device)).compute_capability)
    return int(found[:-1]), int(found[-1])


def _index(device: Any) -> int:
    index = backend.resolved("cuda" if device is None else device).index
    if index is None:
        raise backend.DeviceError(f"found {device}, expected a CUDA device")
    return index


def stream(stream: Stream | None) -> Any:
    """`with gradhook.cuda.stream(s):` is `with s:`; None changes nothing."""
    return current_stream() if stream is None else stream


def synchronize(device: Any = None) -> None:
    """The host waits for all work on a device (the current one). Nothing without CUDA."""
    if device is None and not is_available():
        return
    module = backend.cupy()
    with module.cuda.Device(_index(device)):
        module.cuda.runtime.deviceSynchronize()
    streams.release_done()


def empty_cache() -> None:
    """Give what CuPy's memory pools hold unused back to all devices and the host."""
    if is_available():
        streams.release_done()
        module = backend.cupy()
        for index in sorted(backend.Process.devices):
            with module.cuda.Device(index):
                module.get_default_memory_pool().free_all_blocks()
        module.get_default_pinned_memory_pool().free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Bytes of a device's memory that live arrays use, of CuPy's and of gradhook's alike."""
    with backend.cupy().cuda.Device(_index(device)):
        return int(backend.cupy().get_default_memory_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """Bytes of a device's memory that CuPy's pool holds, used or not."""
    with backend.cupy().cuda.Device(_index(device)):
        return int(backend.cupy().get_default_memory_pool().total_bytes())


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes allocated, reserved, free in the pool, free and in all on the device; blocks of pinned
    host memory free in its pool; objects held for another stream.
    """
    module = backend.cupy()
    with module.cuda.Device(_index(device)):
        pool = module.get_default_memory_pool()
        free, total = module.cuda.runtime.memGetInfo()
        return {
            "allocated_bytes": int(pool.used_bytes()),
            "reserved_bytes": int(pool.total_bytes()),
            "pool_free_bytes": int(pool.free_bytes()),
            "device_free_bytes": int(free),
            "device_total_bytes": int(total),
            "pinned_free_blocks": int(module.get_default_pinned_memory_pool().n_free_blocks()),
            "held_for_streams": streams.held_count(),
        }


__all__ = [
    "ElementwiseKernel", "Event", "RawKernel", "Stream", "current_device", "current_stream",
    "default_stream", "device",
    "device_count", "empty_cache", "get_device_capability", "get_device_name", "is_available",
    "memory_allocated", "memory_reserved", "memory_stats", "set_device", "stream", "synchronize",
]  # fmt: skip
