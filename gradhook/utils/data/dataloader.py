"""DataLoader: batches of a dataset. Source of names and rules: torch.utils.data.DataLoader; its
own are `device` and how workers are started.
"""

from __future__ import annotations

import copy
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import Any

from gradhook import backend
from gradhook.random import Generator
from gradhook.utils.data.collate import default_collate, default_convert
from gradhook.utils.data.dataset import IterableDataset
from gradhook.utils.data.iterator import LoaderIterator, SameProcessIterator, WorkerIterator
from gradhook.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

_FIXED = (
    "batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers",
)  # fmt: skip


class _Endless:
    """The sampler of an IterableDataset, whose keys mean nothing."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader:
    """Iterable over the batches of a dataset.

    dataset: with `__getitem__` and `__len__`, or an IterableDataset. batch_size: samples in a
    batch; None: samples as they are, through default_convert. shuffle: another order in each pass,
    drawn from `generator` (the default one when None). sampler: keys in any order. batch_sampler:
    lists of keys. drop_last: leave out a last, smaller batch. collate_fn: makes a batch of a list
    of samples (default_collate).

    num_workers: processes that make the batches; 0: this one. prefetch_factor: batches that are
    asked of each worker ahead (2). persistent_workers: keep them after a pass. timeout: seconds to
    wait for a batch; 0: for ever. worker_init_fn(worker number): called first in each worker.
    multiprocessing_context: a start method or context; by default the program's own, but
    "forkserver" in place of "fork" once CUDA is in use. in_order: batches in the sampler's order;
    else as they come. Workers make tensors that name no device on the CPU. In worker i, `random`,
    `numpy.random` and gradhook's default generator start from a number drawn in each pass, plus i.

    device: where the tensors of a batch go: through pinned memory and without waiting, the next
    batch while this one is used. pin_memory: batches in page-locked memory (with CUDA).

    Errors: ValueError for options that exclude each other; in a pass, a worker's exception again,
    with its traceback; RuntimeError for a worker that died or a timeout. No process outlives the
    pass, an exception, `break` (once the iterator is gone) or the interpreter.
    """

    _initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: Any = None,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, IterableDataset):
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.device = None if device is None else backend.resolved(device)
        self.sampler: Any = self._sampler(shuffle) if sampler is None else sampler
        self.batch_size: int | None = batch_size
        self.batch_sampler: Any = batch_sampler
        self.drop_last = drop_last
        if batch_sampler is not None:
            self.batch_size = None
        elif batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            default_collate if self.batched else default_convert
        )
        self._expected: int | None = None  # batches, as len() said, of an IterableDataset
        self._iterator: WorkerIterator | None = None
        self._initialized = True

    def _sampler(self, shuffle: bool | None) -> Any:
        if isinstance(self.dataset, IterableDataset):
            return _Endless()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized; "
                "make another one"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context in which workers start; None: chosen when they do. May be set to a context or
        the name of a start method.
        """
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is None:
            self._context: Any = None
            return
        if not self.num_workers:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers "
                f"> 0), but got num_workers={self.num_workers}"
            )
        methods = multiprocessing.get_all_start_methods()
        if isinstance(context, str) and context not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={context!r}"
            )
        found = multiprocessing.get_context(context) if isinstance(context, str) else context
        if not isinstance(found, BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context!r}"
            )
        self._context = found

    @property
    def batched(self) -> bool:
        """Whether samples are put together in batches."""
        return self.batch_sampler is not None

    @property
    def index_sampler(self) -> Any:
        """What gives the keys of each batch."""
        return self.batch_sampler if self.batched else self.sampler

    @property
    def pins(self) -> bool:
        """Whether batches are put into page-locked memory."""
        return self.pin_memory and backend.is_available()

    def __iter__(self) -> LoaderIterator:
        """A pass over the batches. With persistent workers there is one iterator, which starts
        anew. Warns where pin_memory has no CUDA to serve.
        """
        if self.pin_memory and not self.pins:
            warnings.warn(
                "'pin_memory' argument is set as true but no CUDA device is found, so batches are "
                "in ordinary memory",
                stacklevel=2,
            )
        if not self.num_workers:
            return SameProcessIterator(self)
        if not self.persistent_workers:
            return WorkerIterator(self)
        if self._iterator is not None and self._iterator.usable:
            self._iterator.restart()
        else:
            self._iterator = None
            # of a copy: the loader owns it, and must not be owned by it
            self._iterator = WorkerIterator(copy.copy(self))
        return self._iterator

    def __len__(self) -> int:
        """The number of batches. TypeError where the dataset or sampler has no length; an estimate
        for an IterableDataset that workers share.
        """
        if not isinstance(self.dataset, IterableDataset):
            return len(self.index_sampler)
        dataset: Any = self.dataset
        length = self._expected = len(dataset)
        if self.batch_size is None:
            return length
        whole, rest = divmod(length, self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def check_length(self, given: int) -> None:
        """Warn when an IterableDataset gives more than it said. given: batches so far."""
        if self._expected is None or given <= len(self):
            return
        warnings.warn(
            f"Length of IterableDataset {type(self.dataset).__name__} was reported to be "
            f"{self._expected} (when accessing len(dataloader)), but {given} batches have been "
            "fetched"
            + ("; each worker gives all of it unless it asks get_worker_info() for its part"
               if self.num_workers else ""),
            stacklevel=3,
        )  # fmt: skip


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            f"num_workers option should be non-negative, found {num_workers}; use num_workers=0 to "
            "disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, found {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing; let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be positive, found {prefetch_factor}")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    start = "DataLoader with IterableDataset: expected unspecified"
    if shuffle:
        raise ValueError(f"{start} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{start} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{start} batch_sampler option, but got batch_sampler={batch_sampler}")


def _check_samplers(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
            "drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
