"""Iterators of a DataLoader: in this process, or over workers. Source of rules: torch.utils.data.

Tasks are given to the workers in turn, `prefetch_factor` for each; a batch that comes early waits,
so the order is that of the sampler whatever the workers' speed.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from gradhook.utils.data.dataset import IterableDataset
from gradhook.utils.data.failure import Failure
from gradhook.utils.data.fetcher import fetcher_for
from gradhook.utils.data.sampler import drawn_seed
from gradhook.utils.data.transfer import Arrival, pin_memory
from gradhook.utils.data.worker import Job, Task
from gradhook.utils.data.worker_pool import WorkerPool, default_context

if TYPE_CHECKING:
    from gradhook.utils.data.dataloader import DataLoader

_NOTHING: Any = object()


class LoaderIterator:
    """One pass over a DataLoader: batches, moved to its device. A subclass makes them."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self._restart()

    def _restart(self) -> None:
        self.keys: Iterator[Any] = iter(self.loader.index_sampler)
        self.base_seed = drawn_seed(self.loader.generator)
        self.given = 0
        self._arriving: Arrival | None = None

    def _next(self) -> Any:
        """The next batch in host memory. StopIteration at the end."""
        raise NotImplementedError

    def _next_if_ready(self) -> Any:
        """The next batch where there is one without waiting, else _NOTHING."""
        return _NOTHING

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        return len(self.loader.index_sampler)

    def __next__(self) -> Any:
        batch = self._delivered()
        self.given += 1
        self.loader.check_length(self.given)
        return batch

    def _delivered(self) -> Any:
        device = self.loader.device
        if device is None:
            batch = self._next()
            return pin_memory(batch) if self.loader.pins else batch
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            arriving = Arrival(self._next(), device)
        following = self._next_if_ready()
        if following is not _NOTHING:
            self._arriving = Arrival(following, device)
        return arriving.batch()

    def __reduce__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled; pickle its DataLoader")


class SameProcessIterator(LoaderIterator):
    """Makes each batch when it is asked for."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self.fetcher = fetcher_for(
            loader.dataset, loader.batched, loader.collate_fn, loader.drop_last
        )

    def _next(self) -> Any:
        keys = next(self.keys)
        try:
            return self.fetcher.fetch(keys)
        except StopIteration as error:
            if isinstance(self.loader.dataset, IterableDataset):
                raise
            # it would end the loop without a word
            raise RuntimeError(f"the dataset raised StopIteration for {keys!r}") from error


class WorkerIterator(LoaderIterator):
    """Asks workers for batches, some ahead."""

    def __init__(self, loader: DataLoader) -> None:
        self.epochs = count()
        super().__init__(loader)
        self.pool = self._started()
        self._end = weakref.finalize(self, self.pool.shutdown)
        self._ask_ahead()

    def _started(self) -> WorkerPool:
        loader = self.loader
        context = loader.multiprocessing_context or default_context()
        job = Job(
            loader.dataset,
            loader.batched,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            loader.num_workers,
            self.base_seed,
        )
        return WorkerPool(job, context)

    def _restart(self) -> None:
        super()._restart()
        self.epoch = next(self.epochs)  # results of older ones are dropped
        self.asked = self.wanted = 0  # the number of the next task, and of the next batch
        self.asked_of: dict[int, int] = {}  # the worker of each task whose batch was not given
        self.waiting: dict[int, Any] = {}  # batches and Failures that came early, by number
        self.active = [True] * self.loader.num_workers
        self.turn = 0

    def restart(self) -> None:
        """Another pass with the same workers (persistent_workers)."""
        self._restart()
        self._ask_ahead()

    @property
    def usable(self) -> bool:
        """Whether its workers live and can make another pass."""
        return bool(self.pool.processes)

    def _ask_ahead(self) -> None:
        prefetch = self.loader.prefetch_factor or 1
        while len(self.asked_of) < prefetch * self.loader.num_workers and self._ask():
            pass

    def _ask(self) -> bool:
        """Give the next task to the next worker; False when there is neither."""
        worker = self._next_worker()
        keys = next(self.keys, _NOTHING) if worker is not None else _NOTHING
        if worker is None or keys is _NOTHING:
            return False
        self.asked_of[self.asked] = worker
        self.pool.ask(worker, Task(self.epoch, self.asked, keys))
        self.asked += 1
        return True

    def _next_worker(self) -> int | None:
        """In turn; without an order of batches, the one with the fewest tasks."""
        n = self.loader.num_workers
        turns = [(self.turn + i) % n for i in range(n) if self.active[(self.turn + i) % n]]
        if not turns:
            return None
        worker = turns[0]
        if not self.loader.in_order:
            load = [*self.asked_of.values()]
            worker = min(turns, key=load.count)
        self.turn = (worker + 1) % n
        return worker

    def _next(self) -> Any:
        while True:
            batch = self._next_if_here()
            if batch is not _NOTHING:
                if isinstance(batch, Failure):
                    batch.reraise()
                return batch
            if not self.asked_of:
                if not self.loader.persistent_workers:
                    self._end()
                raise StopIteration
            if not self._receive(self.loader.timeout or None):
                raise RuntimeError(
                    f"DataLoader timed out after {self.loader.timeout} seconds: batch "
                    f"{self.wanted} did not come from worker {self.asked_of.get(self.wanted)}; "
                    "its dataset hangs, or give a larger timeout"
                )

    def _next_if_ready(self) -> Any:
        while self._receive(0):
            pass
        number = self._next_number()
        if number is None or isinstance(self.waiting[number], Failure):
            return _NOTHING  # a Failure is raised when its turn comes
        return self._next_if_here()

    def _next_if_here(self) -> Any:
        number = self._next_number()
        if number is None:
            return _NOTHING
        batch = self.waiting.pop(number)
        del self.asked_of[number]
        self._ask()
        return batch

    def _next_number(self) -> int | None:
        """The number of the batch whose turn it is, if it is here."""
        if not self.loader.in_order:
            return next(iter(self.waiting), None)
        while self.wanted < self.asked and self.wanted not in self.asked_of:
            self.wanted += 1  # given, or its worker's data ended before it
        return self.wanted if self.wanted in self.waiting else None

    def _receive(self, timeout: float | None) -> bool:
        """Take one result in. Whether there was one."""
        if not self.asked_of and timeout == 0:
            return False
        found = self.pool.receive(timeout)
        if found is None:
            return False
        worker, result = found
        epoch, number, ended = result.label
        if epoch == self.epoch:
            if ended:
                self._ended(worker)
            elif number in self.asked_of:
                self.waiting[number] = result.batch
        return True

    def _ended(self, worker: int) -> None:
        """A worker's IterableDataset has no more: others get what it would have been asked."""
        self.active[worker] = False
        if not self.loader.persistent_workers:
            self.pool.dismiss(worker)
        for number, other in list(self.asked_of.items()):
            if other == worker and number not in self.waiting:
                del self.asked_of[number]
        self._ask_ahead()
