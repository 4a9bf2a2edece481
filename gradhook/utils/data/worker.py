"""A worker: the process that makes batches, and what it knows of itself.

Source of names and rules: torch.utils.data.get_worker_info; seeds are base seed + worker number.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from gradhook.random import manual_seed
from gradhook.utils.data import parcel
from gradhook.utils.data.failure import Failure
from gradhook.utils.data.fetcher import Fetcher, IterableFetcher, fetcher_for


@dataclass(frozen=True)
class WorkerInfo:
    """id: 0..num_workers-1. seed: of this worker's random numbers. dataset: its own copy."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Here:
    """This process."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """What a worker of a DataLoader knows of itself; None in the main process."""
    return _Here.info


class Job(NamedTuple):
    """What all workers of an iteration have in common, as the DataLoader was told."""

    dataset: Any
    batched: bool
    collate: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    num_workers: int
    seed: int


class Task(NamedTuple):
    """Batch `number` of epoch `epoch`, of these keys."""

    epoch: int
    number: int
    keys: Any


class Label(NamedTuple):
    """Which task a result is of. ended: none, as the worker's IterableDataset has no more."""

    epoch: int
    number: int
    ended: bool = False


class Result(NamedTuple):
    """A task's batch, or a Failure."""

    label: Label
    batch: Any


def work(
    job: Job, worker: int, connection: Connection[Any, Any], other_end: Connection[Any, Any] | None
) -> None:
    """The life of a worker. other_end: the main process's end of the connection, which a forked
    process has too and must not keep open.
    """
    if other_end is not None:
        other_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process gets it and ends its workers
    os.environ["GRADHOOK_DEVICE"] = "cpu"  # tensors that name no device: workers have no CUDA
    seed = job.seed + worker
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(seed % 2**32)
    _Here.info = WorkerInfo(worker, job.num_workers, seed, job.dataset)
    maker = _Maker(job, worker)
    tasks = _tasks(connection)
    while (task := tasks.get()) is not None:
        result = maker.result(task)
        try:
            parcel.send(connection, parcel.pack(result.label, result.batch))
        except ConnectionError:  # the main process has closed its end
            return
        except Exception as error:  # a batch that cannot be pickled, or has no room in memory
            parcel.send(connection, parcel.pack(result.label, Failure(error, worker)))


def _tasks(connection: Connection[Any, Any]) -> SimpleQueue[Task | None]:
    """A queue of what the main process asks for, and of None once it is gone or wants no more.

    A thread empties the connection, so the main process never waits to be heard.
    """
    tasks: SimpleQueue[Task | None] = SimpleQueue()

    def listen() -> None:
        try:
            while True:
                tasks.put(connection.recv())
        except (OSError, EOFError):
            while not tasks.empty():
                tasks.get_nowait()
            tasks.put(None)

    threading.Thread(target=listen, name="gradhook-data-tasks", daemon=True).start()
    return tasks


class _Maker:
    """Makes the results of tasks. A new epoch starts its dataset anew."""

    def __init__(self, job: Job, worker: int) -> None:
        self.job = job
        self.worker = worker
        self.epoch = -1
        self.fetcher: Fetcher | None = None
        self.broken: Failure | None = None  # worker_init_fn failed: so does every task
        if job.init is not None:
            try:
                job.init(worker)
            except Exception as error:
                self.broken = Failure(error, worker)

    def result(self, task: Task) -> Result:
        """A batch, a Failure or the end."""
        label = Label(task.epoch, task.number)
        if self.broken is not None:
            return Result(label, self.broken)
        try:
            if task.epoch != self.epoch or self.fetcher is None:
                self.epoch, self.fetcher = task.epoch, None
                self.fetcher = fetcher_for(*self.job[:4])
            return Result(label, self.fetcher.fetch(task.keys))
        except StopIteration as error:
            if isinstance(self.fetcher, IterableFetcher):
                return Result(label._replace(ended=True), None)
            return Result(label, Failure(error, self.worker))
        except Exception as error:
            return Result(label, Failure(error, self.worker))
