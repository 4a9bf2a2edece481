"""WorkerPool: the worker processes of an iteration, and their end.

Each worker has a connection of its own and shares no lock with others, so one that dies leaves the
rest, and the main process, able to go on.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

from gradhook import backend
from gradhook.utils.data import parcel
from gradhook.utils.data.failure import Failure
from gradhook.utils.data.worker import Job, Label, Result, Task, work

PATIENCE = 5.0  # seconds for all workers to end by themselves, then they are ended


def default_context() -> Any:
    """How workers are started: as the program's other processes are, but never by fork where CUDA
    is in use.

    A forked process has the driver's state and locks of its parent and not the threads behind
    them, so the first CUDA call in it fails. "forkserver" forks each from a fresh process that
    never saw CUDA: workers start as fast, and what they get must be picklable. Where there is no
    forkserver the default is "spawn" already.
    """
    # get_context() would fix the program's start method as a side effect
    method = multiprocessing.get_start_method(allow_none=True)
    method = method or multiprocessing.get_all_start_methods()[0]
    if method == "fork" and backend.cuda_in_use():
        method = "forkserver"
    return multiprocessing.get_context(method)


class WorkerPool:
    """Processes that make batches. job: what they all know. context: of multiprocessing.

    Errors: what pickle raises, with the way out, when a process that is not forked cannot get the
    dataset.
    """

    def __init__(self, job: Job, context: Any) -> None:
        self.owner = os.getpid()
        self.method: str = context.get_start_method()
        self.processes: list[Any] = []
        self.connections: list[Connection[Any, Any] | None] = []
        self._received: deque[tuple[int, Result]] = deque()
        try:
            for worker in range(job.num_workers):
                self._start(job, worker, context)
        except BaseException:
            self.shutdown()
            raise

    def _start(self, job: Job, worker: int, context: Any) -> None:
        ours, theirs = context.Pipe()
        process = context.Process(
            target=work,
            args=(job, worker, theirs, ours if self.method == "fork" else None),
            name=f"gradhook-data-worker-{worker}",
            daemon=True,
        )
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            ours.close()
            error.add_note(
                f"A DataLoader worker is started by {self.method!r} here, so dataset, collate_fn "
                "and worker_init_fn are pickled: define them at the top of a module (no lambda, no "
                "class in a function). multiprocessing_context='fork' pickles nothing, but its "
                "workers cannot use CUDA once this process does."
            )
            raise
        finally:
            theirs.close()
        self.processes.append(process)
        self.connections.append(ours)

    def ask(self, worker: int, task: Task) -> None:
        """Give a worker a task. A worker that is gone shows when its result is waited for."""
        connection = self.connections[worker]
        if connection is not None:
            with suppress(OSError):
                connection.send(task)

    def receive(self, timeout: float | None) -> tuple[int, Result] | None:
        """The next result of any worker, with the worker's number; None when there is none in
        `timeout` seconds (None: for ever).

        Errors: RuntimeError for a worker that ended by itself.
        """
        if not self._received:
            self._listen(timeout)
        return self._received.popleft() if self._received else None

    def _listen(self, timeout: float | None) -> None:
        ends: dict[Any, int] = {c: i for i, c in enumerate(self.connections) if c is not None}
        sentinels = {self.processes[i].sentinel: i for i in ends.values()}
        ready = wait([*ends, *sentinels], timeout)
        dead = [sentinels[s] for s in ready if s in sentinels]
        for connection, worker in ends.items():
            if connection in ready:
                try:
                    label, parts = parcel.receive(connection)
                    self._received.append((worker, _unpacked(worker, label, parts)))
                except (OSError, EOFError):
                    dead.append(worker)
        if dead and not self._received:  # what was sent before comes first
            raise self._death(dead[0])

    def _death(self, worker: int) -> RuntimeError:
        """The error for a worker that is gone. Ends the others."""
        process = self.processes[worker]
        process.join(PATIENCE)
        pid, code = process.pid, process.exitcode
        self.shutdown()
        how = f"with exit code {code}"
        if code is not None and code < 0:
            how = f"by signal {signal.Signals(-code).name}"
        hint = (
            "SIGKILL often means that memory ran out: take fewer workers or smaller batches"
            if code == -signal.SIGKILL
            else "its own output says why; num_workers=0 shows the error here"
        )
        if self.method != "fork":
            hint += (
                f". Workers are started by {self.method!r}, which imports the main module again: "
                "what a script does belongs under if __name__ == '__main__'"
            )
        return RuntimeError(
            f"DataLoader worker {worker} (pid(s) {pid}) exited unexpectedly {how}: {hint}"
        )

    def dismiss(self, worker: int) -> None:
        """A worker has no more to do: it ends when it sees its connection closed."""
        connection, self.connections[worker] = self.connections[worker], None
        if connection is not None:
            _close(connection)

    def shutdown(self) -> None:
        """End all workers and wait until they are gone. Again: nothing."""
        if os.getpid() != self.owner:  # a copy in a forked process
            return
        for worker in range(len(self.processes)):
            self.dismiss(worker)
        self._received.clear()
        deadline = monotonic() + PATIENCE
        for end in ("join", "terminate", "kill"):
            for process in self.processes:
                if end != "join" and process.is_alive():
                    getattr(process, end)()
            for process in self.processes:
                process.join(max(0.0, deadline - monotonic()) if end != "kill" else None)
            deadline = monotonic() + 1
        for process in self.processes:
            process.close()
        self.processes, self.connections = [], []


def _unpacked(worker: int, label: Label, parts: list[Any]) -> Result:
    """A worker's result; a Failure where its batch cannot be unpickled in this process."""
    try:
        return Result(label, parcel.unpack(parts))
    except Exception as error:
        return Result(label, Failure(error, worker, "this process, unpickling a batch of "))


def _close(connection: Connection[Any, Any]) -> None:
    """Close a connection for both ends, also where a forked process has a copy of this one."""
    with suppress(OSError, AttributeError):
        with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.shutdown(socket.SHUT_RDWR)
    connection.close()
