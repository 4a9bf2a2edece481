"""Datasets, samplers and collating."""

from __future__ import annotations

from collections import Counter, OrderedDict, UserList, defaultdict, namedtuple

import numpy as np
import pytest

import gradhook
from gradhook.utils import data

Point = namedtuple("Point", "x y")


def column(*values):
    return gradhook.tensor(values, device="cpu")


# ---- datasets


def test_a_tensor_dataset_pairs_elements():
    d = data.TensorDataset(column(1, 2, 3), column([1.0], [2.0], [3.0]))
    assert len(d) == 3 and [t.tolist() for t in d[1]] == [2, [2]]
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors.*\[2, 1\]"):
        data.TensorDataset(column(1, 2), column(1))


def test_datasets_one_after_another_are_added():
    d = data.Subset([1, 2, 3], [2, 0]) + data.Subset([7], [0])
    assert isinstance(d, data.ConcatDataset) and [d[i] for i in range(3)] == [3, 1, 7]
    assert len(d) == 3 and d[-1] == 7 and d[-3] == 3
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        d[-4]
    with pytest.raises(IndexError, match="found index 3"):
        d[3]
    with pytest.raises(AssertionError, match="should not be an empty iterable"):
        data.ConcatDataset([])


class Stream(data.IterableDataset):
    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)


def test_streams_one_after_another_are_chained():
    d = Stream(1, 2) + Stream(3)
    assert isinstance(d, data.ChainDataset) and list(d) == [1, 2, 3] and len(d) == 3
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([[1], Stream(1)])
    with pytest.raises(AssertionError, match="only supports IterableDataset, found list"):
        list(data.ChainDataset([[1]]))


def test_datasets_side_by_side_make_tuples_or_dicts():
    pair, named = data.StackDataset([1, 2], "ab"), data.StackDataset(n=[1, 2], c="ab")
    assert pair[1] == (2, "b") and named[1] == {"n": 2, "c": "b"} and len(pair) == 2
    assert named.__getitems__([1, 0]) == [{"n": 2, "c": "b"}, {"n": 1, "c": "a"}]
    for args, kwargs in (((), {}), (([1], [1, 2]), {}), (([1],), {"a": [1]})):
        with pytest.raises(ValueError):
            data.StackDataset(*args, **kwargs)


def test_a_subset_asks_its_dataset_for_many_at_once():
    class AtOnce(list):
        def __getitems__(self, keys):
            return [("once", i) for i in keys]

    d = data.Subset(AtOnce("abcd"), [3, 1])
    assert d[0] == "d" and len(d) == 2 and d.__getitems__([1, 0]) == [("once", 1), ("once", 3)]
    assert data.Subset(np.arange(5), [4, 2])[[0, 1]].tolist() == [4, 2]


def test_a_subset_of_another_class_must_say_how_it_gets_many():
    class Doubled(data.Subset):
        def __getitem__(self, i):
            return 2 * super().__getitem__(i)

    with pytest.raises(NotImplementedError, match="Doubled overrides __getitem__ but not"):
        Doubled([1, 2], [0])


@pytest.mark.parametrize(
    ("lengths", "expected"), [([6, 4], [6, 4]), ([0.5, 0.25, 0.25], [6, 2, 2]), ([1.0], [10])]
)
def test_a_random_split_has_every_sample_once(lengths, expected):
    def split():
        return data.random_split(range(10), lengths, gradhook.Generator().manual_seed(2))

    parts = split()
    assert [len(p) for p in parts] == expected
    assert sorted(i for p in parts for i in p) == list(range(10))
    assert [p.indices for p in parts] == [p.indices for p in split()]


def test_a_random_split_of_other_sums_is_refused_and_an_empty_part_is_told():
    with pytest.raises(ValueError, match=r"Sum of input lengths.*\[3, 4\], 7 in all, expected 10"):
        data.random_split(range(10), [3, 4])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(range(10), [-0.5, 1.5])
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        data.random_split(range(2), [0.9, 0.1])[0]


def test_what_a_subclass_must_have_is_said():
    for kind, ask in ((data.Dataset, lambda d: d[0]), (data.IterableDataset, iter)):
        with pytest.raises(NotImplementedError, match="should implement"):
            ask(kind())
    with pytest.raises(NotImplementedError, match="should implement"):
        iter(data.Sampler())


# ---- samplers


def test_a_random_sampler_shuffles_again_for_more_samples_than_there_are():
    drawn = list(data.RandomSampler(range(4), num_samples=10))
    assert sorted(drawn[:4]) == sorted(drawn[4:8]) == [0, 1, 2, 3] and len(drawn) == 10
    assert len(set(drawn[8:])) == 2


def test_with_replacement_each_number_is_drawn_from_all():
    g = gradhook.Generator().manual_seed(0)
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=3000, generator=g))
    assert all(abs(n - 1000) < 150 for n in Counter(drawn).values()) and len(drawn) == 3000


def test_weights_decide_how_often_a_number_is_drawn():
    g = gradhook.Generator().manual_seed(0)
    drawn = Counter(data.WeightedRandomSampler([1, 0, 3], 4000, generator=g))
    assert set(drawn) == {0, 2} and abs(drawn[2] - 3000) < 150
    once = list(data.WeightedRandomSampler(np.ones(5), 5, replacement=False))
    assert sorted(once) == [0, 1, 2, 3, 4] and len(data.WeightedRandomSampler([1], 7)) == 7


def test_a_subset_sampler_gives_its_keys_in_random_order():
    keys = data.SubsetRandomSampler(["a", "b", "c"], gradhook.Generator().manual_seed(1))
    assert sorted(keys) == ["a", "b", "c"] and len(keys) == 3


@pytest.mark.parametrize("n", [0, 5, 6, 7])
@pytest.mark.parametrize("drop_last", [True, False])
def test_a_batch_samplers_length_is_the_number_of_its_batches(n, drop_last):
    batches = data.BatchSampler(data.SequentialSampler(range(n)), 3, drop_last)
    found = list(batches)
    assert len(found) == len(batches)
    assert [i for b in found for i in b] == list(range(n - n % 3 if drop_last else n))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: data.RandomSampler([]), ValueError),
        (lambda: data.RandomSampler([1], num_samples=0), ValueError),
        (lambda: data.RandomSampler([1], replacement=1), TypeError),
        (lambda: data.WeightedRandomSampler([1.0], True), ValueError),
        (lambda: data.WeightedRandomSampler([1.0], 1, replacement=2), ValueError),
        (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError),
        (lambda: data.BatchSampler([1], 0, False), ValueError),
        (lambda: data.BatchSampler([1], 2.0, False), ValueError),
        (lambda: data.BatchSampler([1], 2, None), ValueError),
    ],
)
def test_samplers_refuse_what_makes_no_sense(make, error):
    with pytest.raises(error, match="should be"):
        make()


# ---- collating


def test_tensors_and_arrays_are_stacked_and_numbers_become_tensors():
    for given, expected, dtype in [
        ([column(1, 2), column(3, 4)], [[1, 2], [3, 4]], gradhook.int64),
        ([np.ones(2, "f4")] * 2, [[1, 1], [1, 1]], gradhook.float32),
        ([np.float32(1), np.float32(2)], [1, 2], gradhook.float32),
        ([1.5, 2.5], [1.5, 2.5], gradhook.float64),
        ([1, 2], [1, 2], gradhook.int64),
        ([True, False], [True, False], gradhook.bool),
    ]:
        found = data.default_collate(given)
        assert found.tolist() == expected and found.dtype == dtype and not found.is_cuda


def test_structures_are_collated_by_element_and_keep_their_types():
    found = data.default_collate([{"p": Point(1, [2, "a"]), "t": (3,)}] * 2)
    assert found["p"].x.tolist() == [1, 1] and type(found["p"]) is Point
    assert found["p"].y[1] == ("a", "a") and type(found["p"].y) is list
    assert type(found["t"]) is list and found["t"][0].tolist() == [3, 3]
    for kind in (OrderedDict, lambda d: defaultdict(int, d)):
        assert type(data.default_collate([kind({"a": 1})])) is type(kind({}))
    assert type(data.default_collate([UserList([1, 2])])) is UserList
    assert type(data.default_collate([range(2)])) is list


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([object()], TypeError, "batch must contain tensors.*found <class 'object'>"),
        ([None], TypeError, "NoneType"),
        ([np.array(["a"])], TypeError, "found <U1"),
        ([[1], [1, 2]], RuntimeError, "of equal size, found sizes"),
        ([np.ones(1), np.ones(2)], RuntimeError, "equal size"),
    ],
)
def test_what_makes_no_batch_is_an_error(batch, error, message):
    with pytest.raises(error, match=message):
        data.default_collate(batch)


def test_converting_shares_memory_and_leaves_the_rest():
    array = np.zeros(3)
    found = data.default_convert({"a": array, "s": "x", "n": 3, "l": (np.float32(2), None)})
    array[:] = 5
    assert found["a"].tolist() == [5, 5, 5] and found["s"] == "x" and found["n"] == 3
    assert found["l"][0].tolist() == 2 and found["l"][1] is None
    assert data.default_convert(np.array(["a"])).tolist() == ["a"]
    assert data.default_convert(Point(1, np.ones(1))).y.tolist() == [1]


def test_the_package_is_there_without_an_import_of_its_own():
    assert gradhook.utils.data is data
    with pytest.raises(AttributeError, match="no attribute 'datum'"):
        _ = gradhook.utils.datum
