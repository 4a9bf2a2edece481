"""Generators of random numbers: reproducible on one backend. Source of names: torch.Generator,
torch.manual_seed.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from gradhook import backend


class Generator:
    """A stream of random numbers. device: "cpu" (NumPy's PCG64) or "cuda" (CuPy's generator of
    that device).
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = backend.device(device)
        self._seed = 0
        self.manual_seed(secrets.randbits(63))

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream anew. seed: any int."""
        self._seed = int(seed)
        self._bits = np.random.Generator(np.random.PCG64(self._seed % 2**64))
        self._device_bits: Any = None
        return self

    def seed(self) -> int:
        """Start from a seed of the system's randomness, and return it."""
        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self) -> int:
        """The seed the stream started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """The state of the CPU stream, for set_state."""
        return {"seed": self._seed, "bits": self._bits.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Continue from a state of get_state(). Errors: TypeError for what is none."""
        if not isinstance(state, dict) or "bits" not in state:
            raise TypeError(
                f"set_state: expected a state from get_state(), found {type(state).__name__}"
            )
        self._seed = state["seed"]
        self._bits.bit_generator.state = state["bits"]
        return self

    def _source(self, xp: Any) -> Any:
        if xp is np:
            return self._bits
        if self._device_bits is None:
            self._device_bits = xp.random.default_rng(self._seed % 2**64)
        return self._device_bits

    def random(self, shape: Any, dtype: Any, *, like: Any = None) -> Any:
        """Raw uniform array in [0, 1). shape: tuple; dtype: floating NumPy dtype; like: an array
        of the module wanted.
        """
        xp = np if like is None else backend.array_module(like)
        d = np.dtype(dtype)
        if d.itemsize < 4:
            return self._source(xp).random(shape, dtype=np.float32).astype(d)
        return (
            np.asarray(self._source(xp).random(shape, dtype=d))
            if xp is np
            else self._source(xp).random(shape, d)
        )

    def normal(self, shape: Any, dtype: Any, *, like: Any = None) -> Any:
        """Raw standard normal array; parameters as `random`."""
        xp = np if like is None else backend.array_module(like)
        d = np.dtype(dtype)
        wide = d if d.itemsize >= 4 else np.dtype("f4")
        found = self._source(xp).standard_normal(shape, dtype=wide)
        return (np.asarray(found) if xp is np else found).astype(d, copy=False)

    def integers(self, low: int, high: int, shape: Any, *, like: Any = None) -> Any:
        """Raw int64 array of numbers in [low, high)."""
        xp = np if like is None else backend.array_module(like)
        found = self._source(xp).integers(low, high, size=shape)
        return np.asarray(found, np.int64) if xp is np else found.astype("i8")

    def permutation(self, n: int, *, like: Any = None) -> Any:
        """Raw int64 array: the numbers 0..n-1 in random order."""
        xp = np if like is None else backend.array_module(like)
        return xp.asarray(self._bits.permutation(n))


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
