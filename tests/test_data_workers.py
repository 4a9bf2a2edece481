"""Workers of a DataLoader: what goes wrong in them, and how they end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time

import pytest
from data_samples import Calls, Numbers, loader, no_workers_left

import gradhook
from gradhook.utils import data


class Odd(Exception):
    """Takes no message."""

    def __init__(self, a, b):
        super().__init__(a)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("five"), ValueError),
        (KeyError("five"), KeyError),
        (Odd("five", 1), RuntimeError),
        (StopIteration("five"), RuntimeError),
    ],
)
def test_an_error_in_a_worker_is_raised_here_with_its_traceback(error, kind):
    def fn(i):
        if i == 2:
            raise error
        return i

    with pytest.raises(kind) as found:
        list(loader(Calls(fn), 1))
    text = str(found.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 0" in text
    assert "in fn\n" in text and "raise error" in text and "\nTraceback" in text
    del found
    assert no_workers_left()


def test_the_batches_round_an_error_still_come():
    def fn(i):
        return 1 // (i - 2)

    batches, found = iter(loader(Calls(fn), 1, 1)), []
    while len(found) < 6:
        try:
            found.append(next(batches).item())
        except ZeroDivisionError:
            found.append(None)
    assert found == [-1, -1, None, 1, 0, 0] and next(batches, "end") == "end"


def test_a_batch_that_cannot_be_pickled_is_an_error_that_names_it():
    with pytest.raises((AttributeError, TypeError), match="lambda"):
        list(loader(Calls(lambda i: lambda: i), 1, 1, collate_fn=lambda b: b[0]))


class Unreadable:
    """Can be pickled, and not read again."""

    def __reduce__(self):
        return int, ("no number",)


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_batch_that_cannot_be_unpickled_is_an_error_and_the_next_ones_come(size):
    batches = iter(
        loader(
            Calls(lambda i: [Unreadable() if i == 1 else i, b"x" * size], 3),
            1,
            1,
            collate_fn=lambda b: b[0],
        )
    )
    assert next(batches)[0] == 0
    with pytest.raises(ValueError, match="unpickling a batch of DataLoader worker process 0"):
        next(batches)
    assert next(batches)[0] == 2


def test_memory_that_runs_out_for_a_batch_is_an_error(monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)  # in the worker, which is forked from here
    with pytest.raises(OSError, match="No space left on device"):
        next(iter(loader(Numbers(2, 5000), 1, 1)))


def test_without_files_in_memory_batches_come_through_the_connection(monkeypatch):
    monkeypatch.setattr(data.parcel, "_MEMORY_FILES", False)
    found = list(loader(Numbers(12, 100_000), 2))
    assert [b[1].tolist() for b in found] == [[i, i + 1] for i in range(0, 12, 2)]
    assert all((b[0][1] == b[1][1]).all().item() for b in found)


def test_a_failing_worker_init_fn_is_an_error():
    with pytest.raises(ZeroDivisionError, match="DataLoader worker process"):
        list(loader(Numbers(), worker_init_fn=lambda worker: 1 // 0))


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "by signal SIGKILL"),
        (lambda: os._exit(3), "with exit code 3"),
    ],
)
def test_a_worker_that_dies_is_one_error_and_no_hang(end, how):
    def fn(i):
        return end() if i == 3 else i

    batches = loader(Calls(fn), 1)
    with pytest.raises(RuntimeError, match=rf"worker 1 \(pid.*exited unexpectedly {how}"):
        list(batches)
    assert no_workers_left()


def test_a_batch_that_takes_too_long_is_an_error():
    batches = loader(Calls(lambda i: time.sleep(0.5)), 1, 1, timeout=0.1)
    with pytest.raises(RuntimeError, match=r"timed out after 0.1 seconds: batch 0 .* worker 0"):
        list(batches)


@pytest.mark.parametrize("how", ["break", "error", "del"])
def test_no_process_and_no_descriptor_outlives_the_loop(how):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    batches = loader(Numbers(100, 5000))
    if how == "del":
        iterator = iter(batches)
        next(iterator)
        del iterator
    else:
        try:
            for _ in batches:
                if how == "break":
                    break
                raise ValueError
        except ValueError:
            pass
    assert no_workers_left() and len(os.listdir("/proc/self/fd")) == before


def test_batches_that_are_kept_hold_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    kept = list(loader(Numbers(60, 5000), 1, 1))
    assert len(kept) == 60 and len(os.listdir("/proc/self/fd")) <= before + 1


PROGRAM = """
import os, sys, time
import numpy as np
from gradhook.utils.data import DataLoader, Dataset
class D(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i): return np.full(5000, i)
batches = iter(DataLoader(D(), 2, num_workers=2, multiprocessing_context="fork"))
next(batches)
print(*[p.pid for p in batches.pool.processes], flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_workers_end_with_the_interpreter_however_that_ends(end):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)], capture_output=True, text=True, timeout=60
    )  # its pipes are the workers' too: it returns when they are closed
    assert done.stderr == "" and len(done.stdout.split()) == 2
    for pid in map(int, done.stdout.split()):
        assert gone(pid)


def gone(pid):
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_a_tensor_with_history_does_not_leave_its_process():
    with pytest.raises(RuntimeError, match="refusing to serialize non-leaf tensor"):
        data.parcel.pack("batch", [gradhook.ones(1, requires_grad=True) * 2])
