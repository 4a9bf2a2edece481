"""CUDA streams and events, and arrays kept until the streams that use them are done.

Streams and events exist with CUDA only: making one on a machine without it is a DeviceError.
CuPy's memory pool gives a block back to the stream it was allocated on without an event, so an
array that another stream still uses is held here until that stream's event is done.
Source of names and rules: torch.cuda.Stream, torch.cuda.Event.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from types import TracebackType
from typing import Any, Self

import numpy as np

from gradhook import backend

DEFAULT_POINTERS = (0, 1, 2)  # the legacy default stream, by either name, and the per-thread one


class Stream:
    """A CUDA stream of one device that does not wait for the default stream.

    device: the current one when None. priority: 0, or -1 for a high one. As a context manager:
    inside, its device and itself are the current ones.
    """

    __slots__ = ("_outer", "cupy", "device")

    cupy: Any
    device: backend.device

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = backend.resolved("cuda" if device is None else device)
        module = _cupy_on(self.device)
        with self.place:
            self.cupy = module.cuda.Stream(non_blocking=True, priority=priority)
        self._outer: list[tuple[int, Any]] = []

    @classmethod
    def over(cls, cupy_stream: Any, device: backend.device) -> Self:
        """A Stream over a stream of CuPy's on a device."""
        made = object.__new__(cls)
        made.device, made.cupy, made._outer = device, cupy_stream, []
        return made

    @property
    def cuda_stream(self) -> int:
        """The stream's pointer (cudaStream_t)."""
        return int(self.cupy.ptr)

    @property
    def is_default(self) -> bool:
        """Whether it is its device's default stream."""
        return self.cupy.ptr in DEFAULT_POINTERS

    @property
    def place(self) -> Any:
        """A context in which its device is the current one: every device's default stream has the
        same pointer, which means that of the current device."""
        return backend.cupy().cuda.Device(self.device.index)

    def use(self) -> None:
        """Make its device and itself the current ones, for good."""
        self.place.use()
        self.cupy.use()

    def record_event(self, event: Event | None = None) -> Event:
        """An event that is done when all work queued here so far is done."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Work queued here later waits for the event; the host does not."""
        if event.cupy is not None:
            with self.place:
                self.cupy.wait_event(event.cupy)

    def wait_stream(self, stream: Stream) -> None:
        """Work queued here later waits for what is queued on the other stream now."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """The host waits for all work queued here."""
        with self.place:
            self.cupy.synchronize()

    def query(self) -> bool:
        """Whether all work queued here is done."""
        with self.place:
            return bool(self.cupy.done)

    def __enter__(self) -> Self:
        current = current_stream(self.device)
        self._outer.append((backend.current_index(), current.cupy))
        self.use()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        index, stream = self._outer.pop()
        self.place.use()
        stream.use()
        backend.cupy().cuda.Device(index).use()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self.cuda_stream == other.cuda_stream and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<gradhook.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def _cupy_on(device: backend.device) -> Any:
    if device.type != "cuda":
        raise backend.DeviceError(f"found {device}, expected a CUDA device: it has no streams")
    return backend.cupy()


class Event:
    """A point in a stream's work, on the device of the stream that first records it; done before
    that. enable_timing: for elapsed_time. DeviceError without CUDA.
    """

    __slots__ = ("cupy", "device", "options")

    cupy: Any
    device: backend.device | None

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        backend.resolved("cuda")
        self.options = {"block": blocking, "disable_timing": not enable_timing}
        self.cupy = self.device = None

    def record(self, stream: Stream | None = None) -> None:
        """Mark what is queued on the stream (the current one) so far. Errors: RuntimeError for a
        stream of another device than before."""
        stream = current_stream() if stream is None else stream
        with stream.place:
            if self.cupy is None:
                self.cupy = backend.cupy().cuda.Event(**self.options)
                self.device = stream.device
            elif self.device != stream.device:
                raise RuntimeError(
                    f"Event device {self.device} does not match recording stream's device "
                    f"{stream.device}; make an event a device"
                )
            self.cupy.record(stream.cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Work queued later on the stream (the current one) waits for this event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether all marked work is done."""
        return self.cupy is None or bool(self.cupy.done)

    def synchronize(self) -> None:
        """The host waits for the marked work."""
        if self.cupy is not None:
            self.cupy.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another. Errors: ValueError without enable_timing or for
        an event that was never recorded."""
        if self.options["disable_timing"] or end.options["disable_timing"]:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.cupy is None or end.cupy is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(backend.cupy().cuda.get_elapsed_time(self.cupy, end.cupy))


def current_stream(device: Any = None) -> Stream:
    """The current stream of a device (the current one)."""
    where = backend.resolved("cuda" if device is None else device)
    module = _cupy_on(where)
    return Stream.over(module.cuda.get_current_stream(where.index), where)


def default_stream(device: Any = None) -> Stream:
    """The default stream of a device (the current one)."""
    where = backend.resolved("cuda" if device is None else device)
    return Stream.over(_cupy_on(where).cuda.Stream.null, where)


# ---- arrays in use on another stream

_held: deque[tuple[Any, Any]] = deque()


def hold(event: Any, what: Any) -> None:
    """Keep objects alive until an event is done. event: with `query()`."""
    release_done()
    _held.append((event, what))


def release_done() -> None:
    """Let go of what is held for events that are done, in the order they were held."""
    try:
        while _held and _held[0][0].query():
            _held.popleft()
    except IndexError:  # another thread took it
        return


def held_count() -> int:
    """How many objects wait for an event."""
    release_done()
    return len(_held)


class _Guard:
    """Owns an array for others; when they are gone, the array stays until the streams that used it
    have done what was queued till then."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: set[Stream] = set()

    def __del__(self) -> None:
        for stream in self.streams:
            try:
                hold(stream.record_event(), self.array)
            except Exception:  # the interpreter or the driver is shutting down
                return


def guarded(array: Any, stream: Stream) -> Any:
    """The array over the same memory, which is kept until `stream` has done what is queued when the
    array dies. The same object when it is guarded already."""
    owner = getattr(array.data.mem, "_owner", None)
    if not isinstance(owner, _Guard):
        owner = _Guard(array)
        module = backend.cupy()
        memory = module.cuda.UnownedMemory(
            int(array.data.mem.ptr), int(array.data.mem.size), owner, array.device.id
        )
        offset = array.data.ptr - array.data.mem.ptr
        pointer = module.cuda.MemoryPointer(memory, offset)
        array = module.ndarray(array.shape, array.dtype, pointer, array.strides)
    owner.streams.add(stream)
    return array


# ---- copies to and from the host that nobody waits for

_copy_streams: dict[tuple[backend.device, str], Stream] = {}


def copy_stream(device: backend.device, way: str = "d2h") -> Stream:
    """The side stream on which a device's copies to the host ("h2d": from it) run."""
    found = _copy_streams.get((device, way))
    if found is None:
        found = _copy_streams[device, way] = Stream(device)
    return found


_numbers = count()


class HostCopy:
    """A copy of an array in host memory, perhaps still under way. Shape and dtype of the array.

    number: in the order in which copies were started.
    """

    __slots__ = ("_array", "event", "number")

    def __init__(self, array: np.ndarray[Any, Any], event: Event | None = None) -> None:
        self._array = array
        self.event = event
        self.number = next(_numbers)

    def done(self) -> bool:
        """Whether the values have arrived."""
        if self.event is not None and self.event.query():
            self.event = None
        return self.event is None

    def wait(self) -> None:
        """The host waits until the values have arrived. Copies of one device arrive in order: to
        wait for the last one is enough."""
        if self.event is not None:
            if not self.event.query():
                self.event.synchronize()
            self.event = None

    def result(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array; waits for them."""
        self.wait()
        return self._array


def copy_to_host(array: Any, snapshot: bool) -> HostCopy:
    """Start a copy of a CuPy array into pinned memory, after what is queued on its current stream.

    snapshot: copy it on the device first, so that later writes in place don't reach the copy.
    """
    module = backend.cupy()
    device = backend.device_of(array)
    side = copy_stream(device)
    backend.count_transfer(array.nbytes, "d2h")
    with module.cuda.Device(device.index):
        source = array.copy() if snapshot else module.ascontiguousarray(array)
        buffer = module.cuda.alloc_pinned_memory(max(source.nbytes, 1))
        host: np.ndarray[Any, Any] = np.frombuffer(buffer, source.dtype, source.size)
        host = host.reshape(array.shape)  # ascontiguousarray makes 0-d arrays 1-d
        side.wait_event(current_stream(device).record_event())
        source.data.copy_to_host_async(host.ctypes.data, source.nbytes, side.cupy)
        event = side.record_event()
    hold(event, (source, buffer))
    return HostCopy(host, event)


def copy_from_host(copy: HostCopy, device: backend.device) -> tuple[Any, Event]:
    """Start a copy back to a device, after what is queued on its current stream. Returns the array
    and the event after which it has its values.
    """
    module = backend.cupy()
    side, host = copy_stream(device, "h2d"), copy._array
    backend.count_transfer(host.nbytes, "h2d")
    with module.cuda.Device(device.index):
        array = module.empty(host.shape, host.dtype)
        side.wait_event(current_stream(device).record_event())
        if copy.event is not None:
            side.wait_event(copy.event)
        array.data.copy_from_host_async(host.ctypes.data, host.nbytes, side.cupy)
        event = side.record_event()
    hold(event, (array, host))
    return array, event


def pinned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of a NumPy array in page-locked memory of CuPy's pool, contiguous."""
    buffer = backend.cupy().cuda.alloc_pinned_memory(max(array.nbytes, 1))
    copy: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, buffer)
    copy[...] = array
    return copy


class Upload:
    """A NumPy array's copy on a device, perhaps still under way on the side stream.

    It lies in memory that the side stream's pool gave, so it waits for no work of other streams;
    that memory goes back once the stream that took the array has done with it.
    """

    __slots__ = ("_array", "device", "event")

    def __init__(self, host: np.ndarray[Any, Any], device: backend.device) -> None:
        self.device = device
        side, source = copy_stream(device, "h2d"), pinned_copy(host)
        backend.count_transfer(source.nbytes, "h2d")
        with side:
            self._array = backend.cupy().empty(source.shape, source.dtype)
            self._array.data.copy_from_host_async(source.ctypes.data, source.nbytes, side.cupy)
        self.event = side.record_event()
        hold(self.event, (self._array, source))

    def array(self) -> Any:
        """The array, for the device's current stream, which waits for the copy."""
        stream = current_stream(self.device)
        stream.wait_event(self.event)
        return guarded(self._array, stream) if self._array.nbytes else self._array


def upload(array: np.ndarray[Any, Any], device: backend.device) -> Upload:
    """Start a copy of a NumPy array to a device, through pinned memory. The host waits for
    nothing; the array may be written at once."""
    return Upload(array, device)
