"""DataLoader: batches in this process and from workers, and their order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import namedtuple

import numpy as np
import pytest
from data_samples import Calls, Numbers, Stream, loader, no_workers_left, numbers

import gradhook
from gradhook.utils import data
from gradhook.utils.data import DataLoader

Point = namedtuple("Point", "x y")


# ---- in this process


@pytest.mark.parametrize(
    ("drop_last", "expected"), [(False, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]), (True, None)]
)
def test_batches_are_in_order_and_the_last_may_be_short_or_left_out(drop_last, expected):
    batches = DataLoader(Numbers(), 4, drop_last=drop_last)
    found = numbers(batches)
    assert found == (expected or [[0, 1, 2, 3], [4, 5, 6, 7]]) and len(batches) == len(found)


def test_without_a_batch_size_samples_come_as_they_are():
    found = list(DataLoader(Numbers(3), None))
    assert [i for _, i in found] == [0, 1, 2] and found[1][0].tolist() == [1, 1, 1]
    assert isinstance(found[0][0], gradhook.Tensor) and isinstance(found[0][1], int)


def test_a_shuffle_has_each_sample_once_and_is_the_generators():
    def order(seed):
        g = gradhook.Generator().manual_seed(seed)
        batches = DataLoader(Numbers(50), 7, shuffle=True, generator=g)
        return [[i for b in numbers(batches) for i in b] for _ in range(2)]

    first, second = order(1)
    assert sorted(first) == sorted(second) == list(range(50)) != first != second
    assert order(1) == [first, second] != order(2)


def test_a_seed_of_the_default_generator_repeats_a_shuffle():
    def order():
        gradhook.manual_seed(4)
        return numbers(DataLoader(Numbers(30), 30, shuffle=True))

    assert order() == order()


def test_a_dataset_with_getitems_is_asked_for_a_batch_at_once():
    class AtOnce(Numbers):
        def __getitems__(self, keys):
            return [(tuple(keys), i) for i in keys]

    assert [b[0][1].tolist() for b in DataLoader(AtOnce(4), 2)] == [[1, 1], [3, 3]]


def test_samplers_and_batch_samplers_say_what_comes():
    assert numbers(DataLoader(Numbers(), 2, sampler=[4, 2, 9])) == [[4, 2], [9]]
    assert numbers(DataLoader(Numbers(), batch_sampler=[[1], [2, 3]])) == [[1], [2, 3]]


def test_an_iterable_dataset_is_batched_and_may_drop_its_last():
    assert [b.tolist() for b in DataLoader(Stream(5), 2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(2), None)) == [0, 1]


def test_an_iterable_dataset_that_gives_more_than_its_length_is_told():
    class Short(Stream):
        def __len__(self):
            return 2

    batches = DataLoader(Short(6), 2)
    assert len(batches) == 1
    with pytest.warns(UserWarning, match="reported to be 2"):
        list(batches)


def test_a_dataset_that_raises_stop_iteration_does_not_end_the_loop_without_a_word():
    def fn(i):
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Calls(fn)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor option should be positive"),
        ({"persistent_workers": True}, "persistent_workers option needs"),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"num_workers": 1, "multiprocessing_context": "fly"}, "valid start method"),
        ({"multiprocessing_context": "spawn"}, "multi-process loading"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_an_iterable_dataset_takes_no_sampler(options):
    with pytest.raises(ValueError, match="DataLoader with IterableDataset"):
        DataLoader(Stream(3), **options)


def test_what_decides_the_batches_is_not_changed_later():
    batches = DataLoader(Numbers(), 2)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        batches.batch_size = 3
    with pytest.raises(TypeError, match="context object"):
        DataLoader(Numbers(), num_workers=1, multiprocessing_context=3)


# ---- workers


@pytest.mark.parametrize("size", [3, 5000])  # through the connection, and beside it
def test_workers_give_the_batches_of_this_process_in_the_same_order(size):
    dataset = Numbers(11, size)
    here, there = list(DataLoader(dataset, 2)), list(loader(dataset))
    assert numbers(here) == numbers(there)
    for (a, _), (b, _) in zip(here, there, strict=True):
        assert a.tolist() == b.tolist() and a.dtype == b.dtype
    there[0][0].fill_(1)  # memory of its own, which may be written
    assert no_workers_left()


def test_a_slow_worker_does_not_change_the_order_unless_that_is_asked_for():
    def slow(i):
        time.sleep(0.3 * (i == 0))
        return i

    assert [b.item() for b in loader(Calls(slow), 1)] == list(range(6))
    found = [b.item() for b in loader(Calls(slow), 1, in_order=False)]
    assert sorted(found) == list(range(6)) and found[0] != 0


def test_trees_of_all_kinds_come_back_as_they_were():
    def sample(i):
        return {"p": Point(np.ones(4000), i), "s": [str(i), b"x"], "t": gradhook.ones(2), "n": None}

    def first(batch):
        return batch[0]

    (found, *_) = loader(Calls(sample), 1, 1, collate_fn=first)
    assert type(found["p"]) is Point and found["p"].x.flags.writeable and found["n"] is None
    assert found["s"] == ["0", b"x"] and found["t"].tolist() == [1, 1]


def test_each_worker_gives_its_part_of_an_iterable_dataset():
    found = [b.tolist() for b in loader(Stream(9))]
    assert found == [[0, 2], [1, 3], [4, 6], [5, 7], [8]] and no_workers_left()


def test_workers_know_who_they_are_and_draw_the_same_numbers_in_the_next_run():
    def draw(i):
        info = data.get_worker_info()
        drawn = random.random(), np.random.rand(), gradhook.rand(1).item()
        return (info.id, info.num_workers, info.seed, *drawn)

    def run():
        g = gradhook.Generator().manual_seed(5)
        return [b for b in loader(Calls(draw, 4), 1, generator=g, collate_fn=lambda b: b[0])]

    first = run()
    assert data.get_worker_info() is None and first == run()
    assert [(b[0], b[1]) for b in first] == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert first[1][2] == first[0][2] + 1 and len({b[3:] for b in first}) == 4


def test_worker_init_fn_runs_first_and_may_change_the_workers_copy():
    def init(worker):
        data.get_worker_info().dataset.n = worker + 10

    class Own(Numbers):
        def __getitem__(self, i):
            return self.n

    assert [b.tolist() for b in loader(Own(2), 1, worker_init_fn=init)] == [[10], [11]]


def test_persistent_workers_make_the_next_pass_too_also_after_a_break():
    def pid(i):
        return i, os.getpid()

    batches = loader(Calls(pid), 2, persistent_workers=True)
    for _ in batches:
        break
    passes = [list(batches) for _ in range(2)]
    assert all([b[0].tolist() for b in p] == [[0, 1], [2, 3], [4, 5]] for p in passes)
    assert len({b[1][0].item() for p in passes for b in p}) == 2
    del batches
    assert no_workers_left()


def test_workers_of_a_fresh_process_give_the_same():
    batches = DataLoader(
        Numbers(5, 5000), 2, num_workers=1, multiprocessing_context="forkserver", timeout=100
    )
    assert numbers(batches) == [[0, 1], [2, 3], [4]] and no_workers_left()


def test_the_start_method_is_the_programs_and_stays_open():
    program = """
import multiprocessing
from gradhook.utils.data.worker_pool import default_context
default = multiprocessing.get_all_start_methods()[0]
assert default_context().get_start_method() == default
multiprocessing.set_start_method("spawn")
assert default_context().get_start_method() == "spawn"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_workers_of_a_fresh_process_need_what_can_be_pickled():
    batches = DataLoader(
        Calls(lambda i: i), num_workers=1, multiprocessing_context="spawn", timeout=60
    )
    with pytest.raises(Exception, match=r"[Pp]ickle") as found:
        next(iter(batches))
    assert "multiprocessing_context='fork'" in "".join(found.value.__notes__)
