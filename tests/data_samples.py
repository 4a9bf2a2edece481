"""Datasets and loaders of the tests of data loading."""

from __future__ import annotations

import multiprocessing

import numpy as np

from gradhook.utils import data
from gradhook.utils.data import DataLoader

FORK = "fork"  # what a test's dataset, made in a function, can be sent by


class Numbers(data.Dataset):
    """0..n-1, each as an array of `size` elements and a number."""

    def __init__(self, n=10, size=3):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.full(self.size, i, "f4"), i


class Calls(Numbers):
    """Calls a function for each sample."""

    def __init__(self, fn, n=6):
        super().__init__(n)
        self.fn = fn

    def __getitem__(self, i):
        return self.fn(i)


class Stream(data.IterableDataset):
    """0..n-1; of several workers, each gives every so manieth."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, self.n, step))


def loader(dataset, batch_size=2, workers=2, **options):
    return DataLoader(
        dataset, batch_size, num_workers=workers, multiprocessing_context=FORK, **options
    )


def numbers(batches):
    return [b[1].tolist() for b in batches]


def no_workers_left():
    """Without the help of the garbage collector."""
    return not [p for p in multiprocessing.active_children() if "gradhook-data" in p.name]
