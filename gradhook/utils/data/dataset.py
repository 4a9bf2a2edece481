"""Datasets: what has samples, by number or one after another. Source of names and rules:
torch.utils.data.dataset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Generic, TypeVar

from gradhook.tensor import Tensor

Sample_co = TypeVar("Sample_co", covariant=True)


class Dataset(Generic[Sample_co]):
    """Samples by key. A subclass has `__getitem__(key)`, and `__len__` for samplers and len().

    With `__getitems__(keys)`, a list of the samples of a list of keys, a DataLoader asks for a
    batch at once.
    """

    def __getitem__(self, index: Any) -> Sample_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        """The samples of both, one dataset after the other."""
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample_co], Iterable[Sample_co]):
    """Samples one after another, as a file or a stream gives them. A subclass has `__iter__`.

    Each worker of a DataLoader iterates over its own copy: `get_worker_info()` says which part is
    its own.
    """

    def __iter__(self) -> Iterator[Sample_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of element i of each tensor, along the first dimension.

    tensors: at least one, of the same first length. Errors: AssertionError for other lengths.
    """

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [len(t) for t in tensors]
        if any(length != lengths[0] for length in lengths):
            raise AssertionError(
                f"Size mismatch between tensors: found first dimensions of lengths {lengths}, "
                "expected the same for all"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Several datasets side by side: sample i is the tuple (the dict, of keyword arguments) of
    sample i of each. Errors: ValueError for other lengths, both kinds of arguments, or none.
    """

    datasets: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either tuple- (via args) or dict- (via kwargs) like input/output, but "
                "both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(d) for d in self._members()]
        if any(length != lengths[0] for length in lengths):
            raise ValueError(
                f"Size mismatch between datasets: found lengths {lengths}, expected the same for "
                "all"
            )
        self._length = lengths[0]

    def _members(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _joined(self, parts: Iterable[Any]) -> Any:
        """One sample of a part of each dataset."""
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, parts, strict=True))
        return tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._joined(d[index] for d in self._members())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [samples_of(d, indices) for d in self._members()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got "
                    f"{len(column)}"
                )
        return [self._joined(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Sample_co]):
    """Several datasets, one after the other, by number.

    datasets: those with lengths. Errors: AssertionError for none and for an IterableDataset; a
    negative number counts from the end, ValueError beyond it.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        for number, d in enumerate(self.datasets):
            if isinstance(d, IterableDataset):
                raise AssertionError(
                    f"ConcatDataset does not support IterableDataset (dataset {number}); use "
                    "ChainDataset"
                )
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Sample_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"absolute value of index should not exceed dataset length: found {index}, the "
                    f"length is {len(self)}"
                )
            index += len(self)
        if index >= len(self):
            raise IndexError(f"found index {index}, the length is {len(self)}")
        member = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[member - 1] if member else 0
        sample: Sample_co = self.datasets[member][index - before]
        return sample


class ChainDataset(IterableDataset[Sample_co]):
    """Several IterableDatasets, one after the other. Errors: AssertionError, when it gets there,
    for a dataset that is none.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _members(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError(
                    f"ChainDataset only supports IterableDataset, found {type(d).__name__}"
                )
            yield d

    def __iter__(self) -> Iterator[Sample_co]:
        for d in self._members():
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self._members())


def samples_of(dataset: Any, indices: list[Any]) -> Any:
    """The samples of a list of keys, asked for at once where the dataset can."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if callable(at_once) else [dataset[i] for i in indices]
