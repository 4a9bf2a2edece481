"""Generators of random numbers: reproducible on one backend. Source of names: torch.Generator,
torch.manual_seed.
"""

from __future__ import annotations

import math
import os
import weakref
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.kernels.elements import dropout_factor
from gradhook.kernels.launch import C_TYPES

_alive: weakref.WeakSet[Generator] = weakref.WeakSet()


def _drawn_seed() -> int:
    """63 bits of the system's randomness."""
    return int.from_bytes(os.urandom(8)) >> 1


def _floating(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to draw in. Errors: NotImplementedError for what is not floating."""
    if dtype.kind in "biu":
        raise NotImplementedError(
            f'"{name}" not implemented for {dtypes.of(dtype).title!r}; it draws floating or '
            f"complex numbers, found dtype {dtypes.of(dtype).name}: convert with .to(dtype)"
        )
    return dtype if dtype.itemsize >= 4 else np.dtype("f4")


class Generator:
    """A stream of random numbers. device: "cpu" (NumPy's PCG64) or "cuda" (CuPy's generator of
    that device).
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = backend.device(device)
        self._seed = 0
        self._draws = 0  # from the streams of devices
        self.manual_seed(_drawn_seed())
        _alive.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream anew. seed: any int."""
        self._seed = int(seed)
        self._cpu_bits: Any = None
        self._device_bits: dict[int, Any] = {}
        self._masks = 0  # dropout masks drawn on devices: the stream of the next one
        return self

    @property
    def _bits(self) -> np.random.Generator:
        """The CPU stream, made on first use: NumPy imports its random numbers only then."""
        if self._cpu_bits is None:
            self._cpu_bits = np.random.Generator(np.random.PCG64(self._seed % 2**64))
        found: np.random.Generator = self._cpu_bits
        return found

    def seed(self) -> int:
        """Start from a seed of the system's randomness, and return it."""
        self.manual_seed(_drawn_seed())
        return self._seed

    def initial_seed(self) -> int:
        """The seed the stream started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """The state of the CPU stream, for set_state."""
        return {
            "seed": self._seed,
            "bits": self._bits.bit_generator.state,
            "masks": self._masks,
        }

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Continue from a state of get_state(). Errors: TypeError for what is none."""
        if not isinstance(state, dict) or "bits" not in state:
            raise TypeError(
                f"set_state: expected a state from get_state(), found {type(state).__name__}"
            )
        self._seed = state["seed"]
        self._masks = state.get("masks", 0)
        self._bits.bit_generator.state = state["bits"]
        return self

    def _place(self, like: Any) -> backend.device:
        """The device of an array, a device, or this generator's own for None."""
        if like is None or isinstance(like, backend.device):
            where = self.device if like is None else like
            return where if where is backend.CPU else backend.resolved(where)
        return backend.device_of(like)

    def _bits_of(self, where: backend.device) -> Any:
        """CuPy's generator of one CUDA device, made on first use and seeded as this one."""
        index = where.index or 0
        if index not in self._device_bits:
            module = backend.cupy()
            self._device_bits[index] = module.random.default_rng(self._seed % 2**64)
        return self._device_bits[index]

    def _draw(self, name: str, like: Any, *args: Any, **kwargs: Any) -> Any:
        where = self._place(like)
        if where.type == "cpu":
            return np.asarray(getattr(self._bits, name)(*args, **kwargs))
        self._draws += 1
        with backend.cupy().cuda.Device(where.index):
            return getattr(self._bits_of(where), name)(*args, **kwargs)

    def random(self, shape: Any, dtype: Any, *, like: Any = None) -> Any:
        """Raw uniform array in [0, 1), in both parts if complex. shape: tuple; dtype: floating or
        complex NumPy dtype; like: an array on the device wanted, or that device (default: this
        generator's).
        """
        d = np.dtype(dtype)
        if d.kind == "c":
            parts = self.random((*shape, 2), np.dtype(f"f{d.itemsize // 2}"), like=like)
            with backend.place(parts):
                return parts.view(d)[..., 0]
        wide = _floating("random", d)
        return self._draw("random", like, shape, dtype=wide).astype(d, copy=False)

    def normal(self, shape: Any, dtype: Any, *, like: Any = None) -> Any:
        """Raw standard normal array (complex: variance 1 over both parts); parameters as
        `random`.
        """
        d = np.dtype(dtype)
        if d.kind == "c":
            parts = self.normal((*shape, 2), np.dtype(f"f{d.itemsize // 2}"), like=like)
            with backend.place(parts):
                return parts.view(d)[..., 0] * d.type(math.sqrt(0.5))
        wide = _floating("normal", d)
        return self._draw("standard_normal", like, shape, dtype=wide).astype(d, copy=False)

    def dropout(self, shape: Any, dtype: Any, p: float, *, like: Any = None) -> Any:
        """Raw array that is 0 with probability p and 1 / (1 - p) elsewhere; parameters as `random`.

        On a device the mask is a kernel's: element i depends on seed, mask number and i only.
        """
        where, d = self._place(like), np.dtype(dtype)
        if where.type == "cpu" or d.name not in C_TYPES:
            return (self.random(shape, d, like=like) >= p) * d.type(1 / (1 - p))
        self._masks += 1
        with backend.cupy().cuda.Device(where.index):
            return dropout_factor(shape, d, p, self._seed, self._masks)

    def integers(self, low: int, high: int, shape: Any, *, like: Any = None) -> Any:
        """Raw int64 array of numbers in [low, high)."""
        return self._draw("integers", like, low, high, size=shape).astype("i8", copy=False)

    def poisson(self, rates: Any) -> Any:
        """Raw int64 array of Poisson counts, on the device of `rates`, a raw array of any shape."""
        with backend.place(rates):
            return self._draw("poisson", rates, rates.astype("f8")).astype("i8", copy=False)

    def permutation(self, n: int, *, like: Any = None) -> Any:
        """Raw int64 array: the numbers 0..n-1 in random order."""
        where = self._place(like)
        if where.type == "cpu":
            return np.asarray(self._bits.permutation(n))
        keys = self._draw("random", where, (n,), dtype=np.dtype("f8"))
        with backend.place(keys):
            return keys.argsort()


class Snapshot:
    """The state of every Generator at one time, on the CPU and on devices; no host copy of a device
    stream is made.
    """

    def __init__(self) -> None:
        self._states = [_GeneratorState(g) for g in tuple(_alive)]

    def settle(self) -> None:
        """The draws that are to be repeated are over: drop the copies of device streams from which
        none was made.
        """
        for state in self._states:
            state.settle()

    def restore(self) -> None:
        """Continue every Generator that still lives from here."""
        for state in self._states:
            state.restore()


class _GeneratorState:
    """One Generator's. devices: copies of its streams by device, None when they don't matter."""

    def __init__(self, g: Generator) -> None:
        self.of, self.state, self.draws = weakref.ref(g), g.get_state(), g._draws
        bits = g._device_bits
        self.devices: dict[int, Any] | None = {k: _device_state(b) for k, b in bits.items()}

    def settle(self) -> None:
        g = self.of()
        if g is None or g._draws == self.draws:
            self.devices = None

    def restore(self) -> None:
        g = self.of()
        if g is None:
            return
        g.set_state(self.state)
        if self.devices is None or g._draws == self.draws:
            return
        for index in tuple(g._device_bits):
            if index in self.devices:
                _set_device_state(g._device_bits[index], self.devices[index])
            else:  # first used since: it starts from the seed again
                del g._device_bits[index]


def _device_memory(bits: Any) -> Any:
    """The memory of CuPy's bit generator as an array; None where NumPy's stands in for it."""
    generator = bits.bit_generator
    if not hasattr(generator, "_state_size"):
        return None
    module = backend.cupy()
    size = generator._state_size() * generator._type_size()
    memory = module.cuda.UnownedMemory(generator.state(), size, generator)
    return module.ndarray((size,), "u1", module.cuda.MemoryPointer(memory, 0))


def _device_state(bits: Any) -> Any:
    """A copy of a device stream's state, on the device."""
    memory = _device_memory(bits)
    if memory is None:
        return bits.bit_generator.state
    with backend.place(memory):
        return memory.copy()


def _set_device_state(bits: Any, state: Any) -> None:
    memory = _device_memory(bits)
    if memory is None:
        bits.bit_generator.state = state
        return
    with backend.place(memory):
        memory[...] = state


def snapshot() -> Snapshot:
    """The state of every Generator now."""
    return Snapshot()


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; returns it."""
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> dict[str, Any]:
    """The default generator's state."""
    return default_generator.get_state()


def set_rng_state(state: dict[str, Any]) -> None:
    """Continue the default generator from a state."""
    default_generator.set_state(state)
