"""Samplers: in which order the samples of a dataset are asked for. Source of names and rules:
torch.utils.data.sampler. Random orders are gradhook's own: the same seed gives another order than
in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from gradhook import backend, dtypes, random
from gradhook.creation import tensor
from gradhook.functions import multinomial
from gradhook.random import Generator

Key_co = TypeVar("Key_co", covariant=True)


def shuffled(n: int, generator: Generator | None) -> list[int]:
    """0..n-1 in random order. generator: the default one when None."""
    source = random.default_generator if generator is None else generator
    order: list[int] = backend.to_host(source.permutation(n)).tolist()
    return order


def drawn_seed(generator: Generator | None) -> int:
    """63 random bits. generator: the default one when None."""
    source = random.default_generator if generator is None else generator
    return int(backend.to_host(source.integers(0, 2**63 - 1, ())))


def positive(name: str, value: Any) -> int:
    """A positive whole number. Errors: ValueError, with the argument's name."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
    return value


class Sampler(Generic[Key_co]):
    """An order of a dataset's keys. A subclass has `__iter__`, and `__len__` if it knows it."""

    def __iter__(self) -> Iterator[Key_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, ... to the end of the dataset."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Numbers of a dataset's samples in random order.

    replacement: each is drawn anew from all of them. num_samples: how many, the dataset's length
    when None; without replacement, more of them are whole shuffles one after another. generator:
    when None, each iteration draws a seed from the default one.
    Errors: TypeError for a replacement that is no bool; ValueError for no samples.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many numbers an iteration gives; the dataset's length of now unless it was given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        source = self.generator
        if source is None:
            source = Generator().manual_seed(drawn_seed(None))
        order = self._replaced(source) if self.replacement else self._shuffles(source)
        return islice(order, self.num_samples)

    def _replaced(self, source: Generator) -> Iterator[int]:
        while True:
            drawn = source.integers(0, len(self.data_source), (256,))
            yield from backend.to_host(drawn).tolist()

    def _shuffles(self, source: Generator) -> Iterator[int]:
        while True:
            yield from shuffled(len(self.data_source), source)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """Given keys in random order. generator: the default one when None."""

    def __init__(self, indices: Sequence[Any], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        for i in shuffled(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Numbers 0..len(weights)-1, drawn with probabilities that are proportional to the weights.

    weights: 1-d, non-negative, need not sum to 1. num_samples: how many. replacement: each is
    drawn from all. generator: the default one when None.
    Errors: ValueError for another shape, no samples, a replacement that is no bool, and weights
    from which they cannot be drawn (RuntimeError when iterated, as PyTorch, for negative ones).
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = tensor(weights, dtype=dtypes.float64, device="cpu")
        if self.weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Lists of batch_size keys of another sampler. drop_last: leave out a last, shorter one.

    Errors: ValueError for a batch_size that is no positive int or a drop_last that is no bool.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        self.batch_size = positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler: Any = sampler
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        keys = iter(self.sampler)
        while batch := list(islice(keys, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + bool(rest and not self.drop_last)
