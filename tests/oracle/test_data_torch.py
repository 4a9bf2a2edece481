"""gradhook.utils.data against torch.utils.data: batches, lengths, order and errors."""

from __future__ import annotations

import inspect
from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple

import numpy as np
import pytest

import gradhook
from gradhook.utils import data

torch = pytest.importorskip("torch")
import torch.utils.data as torch_data  # noqa: E402

LIBRARIES = ((gradhook, data), (torch, torch_data))
Point = namedtuple("Point", "x y")


def plain(tree):
    """A tree with its types by name and its tensors by dtype and values."""
    if isinstance(tree, gradhook.Tensor | torch.Tensor):
        return "tensor", str(tree.dtype).rpartition(".")[2], tuple(tree.shape), tree.tolist()
    if isinstance(tree, dict | UserDict):
        return type(tree).__name__, [(k, plain(v)) for k, v in tree.items()]
    if isinstance(tree, tuple | list | UserList):
        return type(tree).__name__, [plain(v) for v in tree]
    return repr(tree)


def both(run):
    """What run(library, its data package) gives in each, or the class of what it raises."""
    found = []
    for lib, package in LIBRARIES:
        try:
            found.append(plain(run(lib, package)))
        except Exception as error:
            found.append(type(error).__name__)
    return found


def same(run):
    ours, theirs = both(run)
    assert ours == theirs
    return ours


BATCHES = {
    "tensors": lambda lib: [lib.ones(2, 3), lib.zeros(2, 3)],
    "0-d tensors": lambda lib: [lib.tensor(1.5), lib.tensor(2.5)],
    "arrays": lambda lib: [np.arange(6).reshape(2, 3), np.zeros((2, 3), "i8")],
    "half": lambda lib: [np.ones(2, "f2")] * 2,
    "0-d arrays": lambda lib: [np.array(1.0), np.array(2.0)],
    "numpy numbers": lambda lib: [np.float32(1), np.float32(2)],
    "numpy float64": lambda lib: [np.float64(1), np.float64(2)],
    "bools": lambda lib: [True, False],
    "ints": lambda lib: [1, 2],
    "int then float": lambda lib: [1, 2.5],
    "float then int": lambda lib: [1.5, 2],
    "strings": lambda lib: ["a", "b"],
    "bytes": lambda lib: (b"a", b"b"),
    "tuples": lambda lib: [(1, "a"), (2, "b")],
    "lists": lambda lib: [[1, 2.0], [3, 4.0]],
    "empty lists": lambda lib: [[], []],
    "named": lambda lib: [Point(1, [2]), Point(3, [4])],
    "dicts": lambda lib: [{"a": 1, "b": (2,)}, {"a": 3, "b": (4,)}],
    "ordered": lambda lib: [OrderedDict(b=1, a=2)] * 2,
    "default": lambda lib: [defaultdict(int, a=1)] * 2,
    "user dict": lambda lib: [UserDict(a=1)] * 2,
    "user list": lambda lib: [UserList([1, 2])] * 2,
    "ranges": lambda lib: [range(2), range(2)],
    "deep": lambda lib: [{"a": [Point((1, lib.ones(2)), {"b": "x"})]}] * 2,
    "unequal lists": lambda lib: [[1], [1, 2]],
    "unequal tensors": lambda lib: [lib.ones(1), lib.ones(2)],
    "none": lambda lib: [None, None],
    "objects": lambda lib: [object()],
    "string arrays": lambda lib: [np.array(["a"])],
    "object arrays": lambda lib: [np.array([None])],
    "sets": lambda lib: [{1}],
    "missing key": lambda lib: [{"a": 1}, {"b": 1}],
    "extra key": lambda lib: [{"a": 1}, {"a": 2, "b": 1}],
    "nothing": lambda lib: [],
}


@pytest.mark.parametrize("name", BATCHES)
def test_collating_gives_pytorchs_batch(name):
    same(lambda lib, package: package.default_collate(BATCHES[name](lib)))


@pytest.mark.parametrize("name", [n for n in BATCHES if n not in ("objects",)])
def test_converting_gives_pytorchs_sample(name):
    same(lambda lib, package: package.default_convert(BATCHES[name](lib)))


def test_the_arguments_have_pytorchs_names_order_and_defaults():
    for name in data.__dict__:
        ours, theirs = getattr(data, name), getattr(torch_data, name, None)
        if not isinstance(ours, type) or theirs is None:
            continue
        a, b = (inspect.signature(kind.__init__).parameters for kind in (ours, theirs))
        expected = [(p.name.strip("_"), p.kind, p.default) for p in b.values()]
        found = [(p.name, p.kind, p.default) for p in a.values() if p.name != "device"]
        assert found == expected, name


def stream_of(package, n):
    class Stream(package.IterableDataset):
        def __iter__(self):
            info = package.get_worker_info()
            return iter(range(n) if info is None else range(info.id, n, info.num_workers))

    return Stream()


LOADERS = [
    {"batch_size": 3},
    {"batch_size": 3, "drop_last": True},
    {"batch_size": None},
    {"sampler": [4, 2, 0], "batch_size": 2},
    {"batch_sampler": [[1], [2, 3]]},
    {"batch_size": 3, "num_workers": 2},
    {"batch_size": 3, "num_workers": 2, "prefetch_factor": 1, "drop_last": True},
    {"batch_size": 3, "collate_fn": sum},
]


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("options", LOADERS, ids=str)
def test_a_loader_gives_pytorchs_batches_and_length(options, n):
    if max((i for b in options.get("batch_sampler", [[0]]) for i in b), default=0) >= n > 0:
        pytest.skip("keys beyond the dataset")

    def run(lib, package):
        batches = package.DataLoader(list(range(n)), **options)
        return [len(batches), list(batches)]

    same(run)


@pytest.mark.parametrize("n", [0, 1, 5, 8])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 2},
        {"batch_size": 2, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 2, "num_workers": 2},
        {"batch_size": 1, "num_workers": 2, "prefetch_factor": 3},
        {"batch_size": 2, "num_workers": 2, "drop_last": True, "persistent_workers": True},
    ],
    ids=str,
)
def test_a_stream_is_shared_out_as_in_pytorch(options, n):
    def run(lib, package):
        batches = package.DataLoader(stream_of(package, n), **options)
        return [list(batches), list(batches)]

    same(run)


REFUSED = [
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"num_workers": 1, "prefetch_factor": -1},
    {"persistent_workers": True},
    {"sampler": [1], "shuffle": True},
    {"batch_sampler": [[1]], "batch_size": 2},
    {"batch_sampler": [[1]], "shuffle": True},
    {"batch_sampler": [[1]], "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": 2.0},
    {"batch_size": True},
    {"drop_last": 1},
    {"multiprocessing_context": "spawn"},
    {"num_workers": 1, "multiprocessing_context": "fly"},
    {"num_workers": 1, "multiprocessing_context": 3},
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_a_loader_refuses_what_pytorch_refuses(options):
    ours = same(lambda lib, package: package.DataLoader([1, 2], **options) and None)
    assert ours in ("ValueError", "TypeError")


@pytest.mark.parametrize("name", ["batch_size", "sampler", "dataset", "drop_last", "num_workers"])
def test_the_same_attributes_are_fixed(name):
    same(lambda lib, package: setattr(package.DataLoader([1, 2]), name, 1))


class Raises(list):
    def __init__(self, error):
        super().__init__([0, 1])
        self.error = error

    def __getitem__(self, i):
        raise self.error


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("error", [ValueError("v"), KeyError("k"), OSError(2, "o"), IndexError()])
def test_an_error_of_a_dataset_has_pytorchs_class(error, workers):
    def run(lib, package):
        batches = iter(package.DataLoader(Raises(error), num_workers=workers))
        try:
            return list(batches)
        finally:  # PyTorch's worker would be waited for when the garbage collector runs
            getattr(batches, "_shutdown_workers", int)()

    assert same(run) in (type(error).__name__, "OSError")


ASKED = {
    "sequential": lambda p: [list(s := p.SequentialSampler("abc")), len(s)],
    "random": lambda p: [len(s := p.RandomSampler("abcd")), sorted(s)],
    "random, more": lambda p: [len(s := p.RandomSampler("abcd", False, 8)), sorted(s)],
    "random, fewer": lambda p: [len(s := p.RandomSampler("abcd", True, 2)), len(list(s))],
    "random, none": lambda p: p.RandomSampler([]),
    "random, 0": lambda p: p.RandomSampler("a", num_samples=0),
    "random, word": lambda p: p.RandomSampler("a", replacement="no"),
    "subset": lambda p: [len(s := p.SubsetRandomSampler([5, 7])), sorted(s)],
    "weighted": lambda p: [len(s := p.WeightedRandomSampler([0.0, 1.0], 3)), list(s)],
    "weighted, once": lambda p: sorted(p.WeightedRandomSampler([1, 1, 1], 3, False)),
    "weighted, too many": lambda p: list(p.WeightedRandomSampler([1, 1], 3, False)),
    "weighted, negative": lambda p: list(p.WeightedRandomSampler([-1, 1], 3)),
    "weighted, 2-d": lambda p: p.WeightedRandomSampler([[1.0]], 1),
    "weighted, 0": lambda p: p.WeightedRandomSampler([1.0], 0),
    "batches": lambda p: [len(b := p.BatchSampler(range(7), 3, False)), list(b)],
    "batches, whole": lambda p: [len(b := p.BatchSampler(range(7), 3, True)), list(b)],
    "batches, 0": lambda p: p.BatchSampler(range(7), 0, True),
    "split": lambda p: [len(s) for s in p.random_split(range(10), [3, 7])],
    "split by fractions": lambda p: [len(s) for s in p.random_split(range(11), [0.5, 0.3, 0.2])],
    "split wrong": lambda p: p.random_split(range(10), [3, 8]),
    "split by wrong fractions": lambda p: p.random_split(range(10), [0.5, 0.4]),
    "concat": lambda p: [
        (c := p.ConcatDataset(["ab", "c"]))[2], c[-1], len(c), c.cumulative_sizes, c[0]
    ],
    "concat below": lambda p: p.ConcatDataset(["ab", "c"])[-4],
    "concat above": lambda p: p.ConcatDataset(["ab", "c"])[3],
    "concat nothing": lambda p: p.ConcatDataset([]),
    "concat streams": lambda p: p.ConcatDataset([stream_of(p, 2)]),
    "chain": lambda p: list(p.ChainDataset([stream_of(p, 2), stream_of(p, 1)])),
    "chain lists": lambda p: list(p.ChainDataset([[1]])),
    "stack": lambda p: [p.StackDataset("ab", [1, 2])[1], p.StackDataset(a="ab")[0]],
    "stack nothing": lambda p: p.StackDataset(),
    "stack unequal": lambda p: p.StackDataset("ab", "a"),
    "stack at once": lambda p: p.StackDataset("ab", [1, 2]).__getitems__([1, 0]),
    "subset beyond": lambda p: p.Subset([1, 2], [0])[1],
    "subset list": lambda p: list(p.Subset("abc", [2, 0])),
    "no item": lambda p: p.Dataset()[0],
    "no length": lambda p: len(p.Dataset()),
    "no sampler length": lambda p: len(p.Sampler()),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_datasets_and_samplers_answer_as_pytorchs(name):
    same(lambda lib, package: ASKED[name](package))


def test_a_tensor_dataset_is_pytorchs():
    same(lambda lib, p: [p.TensorDataset(lib.arange(4), lib.ones(4, 2))[1:3]])
    same(lambda lib, p: p.TensorDataset(lib.arange(4), lib.ones(3)))
    same(lambda lib, p: len(p.TensorDataset(lib.arange(4))))
