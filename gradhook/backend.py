"""Array modules and devices: the only file that imports CuPy, and only when CUDA is asked for.

gradhook imports and works without CuPy. Arrays are recognised by their class, so that a program
which uses NumPy only never pays for importing CuPy.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradhook.devices import DeviceError as DeviceError
from gradhook.devices import device as device

_WAY_OUT = (
    "install CuPy (pip install 'gradhook[cuda12]' or 'gradhook[cuda13]') on a machine with an "
    "NVIDIA driver, or use device='cpu'; python -m gradhook info shows what was found"
)

CPU = device("cpu")
NUMPY_TYPES = (np.ndarray, np.generic)


# ---- CuPy, found on demand


class _Cupy(NamedTuple):
    module: Any  # the cupy module, None when it cannot be imported
    devices: int
    problem: str | None


@functools.cache
def _find_cupy() -> _Cupy:
    """Import CuPy and count its devices, once. CuPy's own warnings become the stated problem."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module: Any = importlib.import_module("cupy")
            importlib.import_module("cupyx")
    except ModuleNotFoundError as error:
        if error.name in ("cupy", "cupyx"):
            return _Cupy(None, 0, "CuPy is not installed")
        return _Cupy(None, 0, f"CuPy cannot be imported: {error}")
    except Exception as error:  # a broken CUDA library raises anything from ImportError to OSError
        return _Cupy(None, 0, f"CuPy cannot be imported: {type(error).__name__}: {error}")
    try:
        count = int(module.cuda.runtime.getDeviceCount())
    except Exception as error:
        problem = f"CuPy {module.__version__} sees no CUDA device: {error}"
        return _Cupy(module, 0, problem)
    return _Cupy(module, count, None if count else f"CuPy {module.__version__} sees no CUDA device")


def is_available() -> bool:
    """Whether CuPy can be imported and sees a CUDA device."""
    return _find_cupy().devices > 0


def device_count() -> int:
    """The number of CUDA devices; 0 without CuPy or without a driver."""
    return _find_cupy().devices


def why_not() -> str | None:
    """Why CUDA is not available, in words; None when it is."""
    return _find_cupy().problem


def cupy_version() -> str | None:
    """CuPy's version, also where it sees no device; None when it cannot be imported."""
    module = _find_cupy().module
    return None if module is None else str(module.__version__)


def device_name(index: int) -> str:
    """The name of a CUDA device, such as "NVIDIA H100". DeviceError when there is none."""
    name = cupy().cuda.runtime.getDeviceProperties(index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


class Process:
    """What this process has done with CUDA. forked: its parent had initialised it; devices: the
    indices of the CUDA devices in use; told: it was said why CUDA is not used.
    """

    forked = False
    told = False
    started = False
    devices: frozenset[int] = frozenset()


def _after_fork() -> None:
    if Process.started:
        Process.forked = True


os.register_at_fork(after_in_child=_after_fork)


def cuda_in_use() -> bool:
    """Whether this process has initialised CUDA, by gradhook or by CuPy. Never imports CuPy."""
    cupy_types()  # a CuPy that the program imported itself is noticed
    return Process.started


def check_fork() -> None:
    """DeviceError in a child of a process that had initialised CUDA."""
    if Process.forked:
        raise DeviceError(
            "Cannot re-initialize CUDA in forked subprocess: the parent had initialised it. To use "
            "CUDA with multiprocessing, use multiprocessing.get_context('spawn')"
        )


def cupy() -> Any:
    """The cupy module. DeviceError, with the reason and the way out, where CUDA is missing."""
    if Process.forked:
        check_fork()
    found = _find_cupy()
    if not found.devices:
        raise DeviceError(f"CUDA was asked for, but {found.problem}; {_WAY_OUT}")
    return found.module


def default_device() -> device:
    """The device that the environment variable GRADHOOK_DEVICE asks for: cpu, cuda or auto.

    Unset or auto: the first CUDA device when there is one, else the CPU. DeviceError for cuda where
    there is none; ValueError for any other word.
    """
    wish = os.environ.get("GRADHOOK_DEVICE", "auto").strip().lower() or "auto"
    if wish not in ("auto", "cpu", "cuda"):
        raise ValueError(f"GRADHOOK_DEVICE: found {wish!r}, expected 'cpu', 'cuda' or 'auto'")
    if wish == "cpu" or (wish == "auto" and not is_available()):
        if wish == "auto" and not Process.told and _find_cupy().module is not None:
            Process.told = True
            warnings.warn(f"{why_not()}; gradhook uses NumPy (GRADHOOK_DEVICE=cpu says so on "
                          "purpose)", stacklevel=2)  # fmt: skip
        return CPU
    return device("cuda", current_index())


@functools.cache
def scipy(module: Any, name: str) -> Any:
    """`scipy.<name>` for the array module numpy, `cupyx.scipy.<name>` for cupy, when first used.

    Errors: ImportError with the way out where SciPy is missing.
    """
    path = f"scipy.{name}" if module is np else f"cupyx.scipy.{name}"
    try:
        with warnings.catch_warnings():  # cupyx.scipy.signal says that cupyx.jit is experimental
            warnings.simplefilter("ignore")
            return importlib.import_module(path)
    except ImportError as error:
        raise ImportError(
            f"this needs {path}, which cannot be imported ({error}); install SciPy: "
            "pip install 'gradhook[scipy]'"
        ) from error


# ---- arrays


_changed: list[Callable[[], None]] = []


def on_change(callback: Callable[[], None]) -> None:
    """Call back when CuPy is first seen, and when a second CUDA device comes into use."""
    _changed.append(callback)


def _use(index: int) -> None:
    """A CUDA device is in use."""
    if index not in Process.devices:
        first = not Process.devices
        Process.devices |= {index, current_index()} if first else {index}
        Process.started = True
        for callback in _changed:
            callback()


def entered(array: Any) -> Any:
    """An array of the user's, whose device is in use from now on."""
    if is_cupy(array):
        _use(array.device.id)
    return array


def current_index() -> int:
    """The index of the current CUDA device. DeviceError when there is none."""
    return int(cupy().cuda.runtime.getDevice())


def array_types() -> tuple[type, ...]:
    """The array classes known now: numpy.ndarray, and cupy.ndarray once CuPy is imported."""
    return (np.ndarray, *cupy_types())


def is_cupy(array: object) -> bool:
    """Whether this is a CuPy array. Never imports CuPy."""
    return isinstance(array, cupy_types())


def cupy_types() -> tuple[type, ...]:
    """cupy.ndarray once CuPy is imported, else nothing: what issubclass and isinstance take."""
    # Without an imported CuPy there is no CuPy array; while it is being imported it has no ndarray.
    cupy_array = getattr(sys.modules.get("cupy"), "ndarray", None)
    if cupy_array is None:
        return ()
    if not Process.started and _find_cupy().devices:
        _use(current_index())
    return (cupy_array,)


def array_module(array: object) -> Any:
    """numpy for a NumPy array or scalar, cupy for a CuPy array; TypeError for anything else."""
    if isinstance(array, NUMPY_TYPES):
        return np
    if is_cupy(array):
        return sys.modules["cupy"]
    raise TypeError(
        f"found {type(array).__module__}.{type(array).__qualname__}, expected a numpy.ndarray or a "
        "cupy.ndarray; gradhook.tensor(...) makes a Tensor of it"
    )


def module_of_type(kind: type) -> Any:
    """array_module for an array class: numpy for numpy.ndarray, cupy for cupy.ndarray."""
    if issubclass(kind, NUMPY_TYPES):
        return np
    if issubclass(kind, cupy_types()):
        return sys.modules["cupy"]
    raise TypeError(
        f"found the class {kind.__module__}.{kind.__qualname__}, expected numpy.ndarray or "
        "cupy.ndarray; convert the array first"
    )


def scalar(value: Any, dtype: Any, kind: type) -> Any:
    """A number as a 0-d array of a class, made without a host transfer."""
    return module_of_type(kind).full((), value, dtype)


def device_of(array: Any) -> device:
    """The device that holds an array: cpu, or cuda with its index."""
    return CPU if array_module(array) is np else device("cuda", array.device.id)


@functools.cache
def cupy_stream() -> Callable[[], Any]:
    """CuPy's function that gives the current stream of the current device."""
    found: Callable[[], Any] = cupy().cuda.get_current_stream
    return found


def stream_key() -> tuple[int, int]:
    """The current device and the pointer of its current stream. What is made on one stream is not
    used on another without a wait, so caches of device arrays are kept by it."""
    if Process.forked:
        check_fork()
    return current_index() if len(Process.devices) > 1 else 0, cupy_stream()().ptr


_count: list[Callable[[int, str], None]] = []


def on_transfer(callback: Callable[[int, str], None]) -> None:
    """Call back with (bytes, "d2h" or "h2d") for every copy between device and host made here."""
    _count.append(callback)


def count_transfer(nbytes: int, kind: str) -> None:
    """A copy between device and host is made. kind: "d2h" or "h2d"."""
    for callback in _count:
        callback(int(nbytes), kind)


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """The array in host memory: a NumPy array as it is, a CuPy array by a copy that waits."""
    if array_module(array) is np:
        return np.asarray(array)
    count_transfer(array.nbytes, "d2h")
    with array.device:  # its current stream is the one that made the array
        result: np.ndarray[Any, Any] = array.get()
    return result


def resolved(where: device | str | int) -> device:
    """A device with its index: "cuda" is the current one. DeviceError for one that is not there."""
    target = _device_class(where)
    if target.type == "cpu":
        return CPU
    index = current_index() if target.index is None else target.index
    if not 0 <= index < device_count():
        raise DeviceError(
            f"found {target}, but there are {device_count()} CUDA devices, numbered from 0; "
            "choose one of them"
        )
    if index not in Process.devices:
        _use(index)
    return target if target.index is not None else _device_class("cuda", index)


def to_device(array: Any, device: device | str) -> Any:
    """The array on a device, the same object when it is there. DeviceError when there is none.

    Between two CUDA devices the copy waits for the current stream of the one and is made on the
    current stream of the other; the host does not wait.
    """
    target = resolved(device)
    if target.type == "cpu":
        return to_host(array)
    module = cupy()
    if not is_cupy(array):
        count_transfer(array.nbytes, "h2d")
        with module.cuda.Device(target.index):
            return module.asarray(array)
    source = array.device
    if source.id == target.index:
        return array
    events = []
    with source:
        array = module.ascontiguousarray(array)
        events.append(module.cuda.get_current_stream().record())
    with module.cuda.Device(target.index):
        stream = module.cuda.get_current_stream()
        stream.wait_event(events[0])
        out = module.empty(array.shape, array.dtype)
        out.data.copy_from_device_async(array.data, array.nbytes, stream)
        done = stream.record()
    with source:  # what frees or overwrites the source comes after the copy
        module.cuda.get_current_stream().wait_event(done)
    return out


def address(array: Any) -> int:
    """The address of an array's first element."""
    return int(array.data.ptr if is_cupy(array) else array.__array_interface__["data"][0])


def place(array: Any) -> Any:
    """A context in which an array's own CUDA device is the current one; nothing on the CPU."""
    return array.device if is_cupy(array) else contextlib.nullcontext()


def call_on(where: device | str, name: str, *args: Any, **kwargs: Any) -> Any:
    """The result of a function of the array module (`zeros`, `arange`) made on a device."""
    target = where if where is CPU else resolved(where)
    if target is CPU:
        return getattr(np, name)(*args, **kwargs)
    module = cupy()
    with module.cuda.Device(target.index):
        return getattr(module, name)(*args, **kwargs)


_device_class = device  # `device` is also the parameter's name, as in PyTorch


def expect_device(array: Any, expected: device, name: str) -> None:
    """Raise DeviceError unless the array is on the expected device. name: what it is, in words."""
    found = device_of(array)
    if found != expected:
        kind = "NumPy" if found.type == "cpu" else "CuPy"
        raise DeviceError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{expected} and {found}! {name}: found a {kind} array of shape {tuple(array.shape)} "
            f"on {found}, expected one on {expected}; move it with .to('{expected}')"
        )
