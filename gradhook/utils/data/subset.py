"""Subset: some samples of a dataset, and random_split. Source of names and rules:
torch.utils.data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from gradhook.random import Generator
from gradhook.utils.data.dataset import Dataset, Sample_co, samples_of
from gradhook.utils.data.sampler import shuffled


class Subset(Dataset[Sample_co]):
    """The samples of a dataset at indices, in their order.

    Errors: NotImplementedError for a subclass that overrides `__getitem__` and not `__getitems__`,
    which a DataLoader asks.
    """

    def __init__(self, dataset: Any, indices: Sequence[Any]) -> None:
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__, which a DataLoader "
                "asks; add def __getitems__(self, indices): return [self[i] for i in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Sample_co:
        """The sample at a place in `indices`; for a list of places, the dataset is asked for the
        list."""
        found = [self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]
        sample: Sample_co = self.dataset[found]
        return sample

    def __getitems__(self, indices: list[Any]) -> Any:
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Disjoint random Subsets of a dataset.

    lengths: numbers of samples that sum to the dataset's length, or fractions that sum to 1 (what
    rounding down leaves is given one each to the first ones). generator: the default one when None.
    Errors: ValueError for another sum or a fraction outside [0, 1]. Warns of an empty one.
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _shares(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! Found "
            f"{list(lengths)}, {sum(lengths)} in all, expected {len(dataset)} (or fractions that "
            "sum to 1)"
        )
    order = shuffled(len(dataset), generator)
    parts, start = [], 0
    for length in lengths:
        end = start + int(length)
        parts.append(Subset[Any](dataset, order[start:end]))
        start = end
    return parts


def _shares(n: int, fractions: Sequence[float]) -> list[int]:
    """Fractions of n in whole numbers that sum to n."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1: found {fraction}")
    lengths = [math.floor(n * fraction) for fraction in fractions]
    for i in range(n - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths
