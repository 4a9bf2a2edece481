"""Fetchers: batch k of a dataset, from its keys. One belongs to a process and an iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradhook.utils.data.dataset import IterableDataset, samples_of


class MapFetcher:
    """Of a dataset with keys. batched: keys are lists of keys, and collate takes a list."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any]) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate = collate

    def fetch(self, keys: Any) -> Any:
        """The batch of a list of keys, or the sample of one key."""
        samples = samples_of(self.dataset, keys) if self.batched else self.dataset[keys]
        return self.collate(samples)


class IterableFetcher:
    """Of a dataset that is iterated over: of keys, only their number counts."""

    def __init__(
        self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.samples = iter(dataset)
        self.batched = batched
        self.collate = collate
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, keys: Any) -> Any:
        """The next batch or sample. StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate(next(self.samples))
        batch = []
        for _ in keys:
            try:
                batch.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(keys)):
            raise StopIteration
        return self.collate(batch)


Fetcher = MapFetcher | IterableFetcher


def fetcher_for(
    dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool
) -> Fetcher:
    """The fetcher of a dataset's kind. drop_last: of an IterableDataset; samplers do it else."""
    if isinstance(dataset, IterableDataset):
        return IterableFetcher(dataset, batched, collate, drop_last)
    return MapFetcher(dataset, batched, collate)
