"""Memory of large results is given again when the array that owned it and all its views are gone,
and never before; how much is kept has a limit.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from native_process import run

import gradhook
from gradhook.native import buffers, library

native = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
SHAPE = (300, 401)  # 481,200 bytes as float32
MB = 1 << 20


@pytest.fixture(autouse=True)
def _limit():
    gradhook.cpu.empty_cache()
    yield
    gradhook.cpu.set_buffer_limit(256 * MB)


def make(shape=SHAPE, dtype="f4"):
    return buffers.empty(shape, np.dtype(dtype))


def held():
    return gradhook.cpu.memory_stats()["held_bytes"]


def handler(array):
    return np._core.multiarray.get_handler_name(array)


@native
def test_memory_of_a_dead_array_is_the_next_ones():
    a = make()
    at, before = a.ctypes.data, gradhook.cpu.memory_stats()
    assert handler(a) == "gradhook" and at % 64 == 0
    del a
    assert held() >= 481_200
    b = make()
    after = gradhook.cpu.memory_stats()
    assert b.ctypes.data == at and held() == 0
    assert after["hits"] == before["hits"] + 1 and after["misses"] == before["misses"]
    c = make()
    assert c.ctypes.data != at and gradhook.cpu.memory_stats()["misses"] == before["misses"] + 1


VIEWS = {
    "slice": lambda a: a[5:7, ::2],
    "transposed": lambda a: a.T,
    "another dtype": lambda a: a.view(np.uint8),
    "memoryview": lambda a: memoryview(a)[3:5],
    "frombuffer": lambda a: np.frombuffer(a, np.uint8, 16),
    "ctypes": lambda a: np.ctypeslib.as_ctypes(a),
    "tensor": lambda a: gradhook.as_tensor(a)[3],
    "dlpack": lambda a: np.from_dlpack(a),
}


@native
@pytest.mark.parametrize("kind", sorted(VIEWS))
def test_memory_is_not_given_again_while_a_view_lives(kind):
    a = make()
    a[...] = 7
    at, view = a.ctypes.data, VIEWS[kind](a)
    del a
    for _ in range(3):
        b = make()
        assert b.ctypes.data != at
        b[...] = 1
        del b
    gradhook.cpu.empty_cache()
    values = view.tolist() if hasattr(view, "tolist") else np.array(view).tolist()
    flat = set(np.asarray(values, "f8").ravel().tolist())
    assert flat == ({7.0} if kind not in ("another dtype", "frombuffer") else {0.0, 224.0, 64.0})
    del view
    b = make()
    assert b.ctypes.data == at or held() == 0


@native
def test_a_tensor_that_lives_keeps_its_values():
    """As many results as a training step makes, each checked after the others died."""
    x = gradhook.ones(SHAPE, requires_grad=True)
    kept = []
    for k in range(20):
        y = gradhook.softmax(x * float(k), -1) * float(k)
        kept.append((k, y.detach()))
        y.sum().backward()
        if k % 3 == 0:
            kept.pop(0)
    for k, y in kept:
        np.testing.assert_allclose(y.numpy(), k / SHAPE[1], rtol=1e-6)


@native
def test_no_more_is_kept_than_the_limit_and_what_was_freed_first_goes_first():
    gradhook.cpu.set_buffer_limit(2 * MB)
    arrays = [make((1000 + 200 * k, 100)) for k in range(6)]
    at = [a.ctypes.data for a in arrays]
    while arrays:
        arrays.pop(0)
        assert held() <= 2 * MB
    assert make((2000, 100)).ctypes.data == at[5]
    misses = gradhook.cpu.memory_stats()["misses"]
    first = make((1000, 100))
    assert gradhook.cpu.memory_stats()["misses"] == misses + 1
    del first
    gradhook.cpu.set_buffer_limit(MB // 4)
    assert held() <= MB // 4


@native
def test_a_block_of_more_than_half_the_limit_is_not_kept():
    gradhook.cpu.set_buffer_limit(MB)
    a = make((150_000,))
    del a
    assert held() == 0


@native
def test_a_limit_of_0_turns_the_pool_off():
    a = make()
    del a
    gradhook.cpu.set_buffer_limit(0)
    assert gradhook.cpu.memory_stats()["limit_bytes"] == held() == 0
    hits = gradhook.cpu.memory_stats()["hits"]
    for _ in range(3):
        a = make()
        a[...] = 3
        del a
    assert gradhook.cpu.memory_stats()["hits"] == hits and held() == 0


@native
def test_empty_cache_gives_all_back():
    arrays = [make(), make()]
    arrays.clear()
    assert held() > 0
    gradhook.cpu.empty_cache()
    assert held() == 0


@native
def test_small_arrays_are_numpys_own():
    assert handler(make((100, 100))) == "default_allocator"


@native
def test_an_array_of_the_pool_can_be_resized():
    a = make((100_000,))
    a[...] = np.arange(100_000)
    a.resize((250_000,), refcheck=False)
    assert (a[:100_000] == np.arange(100_000)).all() and not a[100_000:].any()
    a.resize((50,), refcheck=False)
    a.resize((40_000,), refcheck=False)
    assert (a[:50] == np.arange(50)).all() and not a[50:].any()


@native
def test_zeros_are_zeros_in_memory_that_held_something():
    a = make((64, 1024))
    a[...] = 9
    at = a.ctypes.data
    del a
    zeros = buffers.Buffers.make(np.zeros, ((64, 1024), "f4"))
    assert zeros.ctypes.data == at and not zeros.any()


@native
def test_what_is_raised_inside_comes_out_and_numpy_allocates_as_before():
    def fail(kind):
        assert handler(np.empty(99)) == "gradhook"
        raise kind("from inside")

    for kind in (ValueError, KeyboardInterrupt, MemoryError):
        with pytest.raises(kind, match="from inside"):
            buffers.Buffers.make(fail, (kind,))
        assert handler(np.empty(99)) == "default_allocator"
    with pytest.raises(MemoryError):
        buffers.Buffers.make(np.ndarray, ((1 << 60,), np.dtype("f4")))
    with pytest.raises(TypeError):
        buffers.Buffers.make(np.ndarray, ())
    nested = buffers.Buffers.make(lambda: (make(), np.empty(99)), ())
    assert [handler(a) for a in nested] == ["gradhook"] * 2
    assert handler(np.empty(99)) == "default_allocator"


@native
def test_threads_may_take_and_free_at_once():
    wrong = []

    def work(number):
        kept = []
        for k in range(300):
            a = make((40_000 + 1000 * (k % 5),))
            a[...] = number
            kept.append(a)
            if len(kept) > 3:
                old = kept.pop(k % 3)
                if not (old == number).all():
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# ---- in processes of their own


@native
def test_a_child_of_a_fork_takes_and_frees_beside_threads_that_do():
    code = """
import os, signal, threading
from gradhook.native import buffers
def make(): return buffers.empty((400, 400), np.dtype("f4"))
make()
stop = []
def others():
    while not stop: a = [make(), make()]
threads = [threading.Thread(target=others) for _ in range(2)]
for t in threads: t.start()
warnings.simplefilter("ignore")
status = []
for _ in range(15):
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        for _ in range(20): a = [make(), make()]
        gradhook.cpu.empty_cache()
        os._exit(0)
    status.append(os.waitpid(pid, 0)[1])
stop.append(1)
for t in threads: t.join()
report(status=status)"""
    assert run(code)["status"] == [0] * 15


@native
@pytest.mark.parametrize(("megabytes", "limit"), [("3", 3 * MB), ("0", 0), ("lots", 256 * MB)])
def test_a_variable_says_how_much_is_kept(megabytes, limit):
    code = "report(stats=gradhook.cpu.memory_stats())"
    assert run(code, GRADHOOK_CPU_BUFFERS=megabytes)["stats"]["limit_bytes"] == limit


@native
def test_a_limit_that_was_set_before_anything_was_loaded_counts():
    code = """
gradhook.cpu.set_buffer_limit(1000)
gradhook.cpu.empty_cache()
report(stats=gradhook.cpu.memory_stats())"""
    found = run(code, GRADHOOK_CPU_BUFFERS="3")
    assert found["stats"] == {"hits": 0, "misses": 0, "held_bytes": 0, "limit_bytes": 1000}


TUNE = """
import threading
name = np._core.multiarray.get_handler_name
found = gradhook.cpu.tune_allocator()
here, there = [name(np.empty(9))], []
thread = threading.Thread(target=lambda: there.append(name(np.empty(9))))
thread.start(); thread.join()
a = np.arange(100_000.0); at = a.ctypes.data; del a
same = np.empty(100_000).ctypes.data == at
report(found=found, here=here, there=there, same=same)"""


@native
def test_tune_allocator_changes_this_context_and_says_so():
    found = run(TUNE)
    assert found["here"] == ["gradhook"] and found["there"] == ["default_allocator"]
    assert found["same"] and found["found"]["numpy"] == "arrays of this context are from the pool"
    assert "kept when freed" in found["found"]["malloc"] or "glibc" in found["found"]["malloc"]


def test_tune_allocator_says_why_it_leaves_numpy_alone():
    found = run(TUNE, GRADHOOK_NATIVE="0")
    assert found["here"] == ["default_allocator"]
    assert found["found"]["numpy"] == "not changed: GRADHOOK_NATIVE=0"


def test_tune_allocator_says_that_another_c_library_is_left_alone(monkeypatch):
    from gradhook.native import compiler

    monkeypatch.setattr(compiler, "libc", lambda: "")
    assert gradhook.cpu._tune_malloc() == "not changed: the C library is not glibc"


def test_without_native_kernels_all_is_there_and_does_nothing():
    code = """
from gradhook.native import buffers
gradhook.cpu.empty_cache(); gradhook.cpu.set_buffer_limit(10)
name = np._core.multiarray.get_handler_name(buffers.empty((400, 400), np.dtype("f4")))
report(stats=gradhook.cpu.memory_stats(), name=name)"""
    found = run(code, GRADHOOK_NATIVE="0")
    assert found["name"] == "default_allocator"
    assert found["stats"] == dict.fromkeys(("hits", "misses", "held_bytes", "limit_bytes"), 0)


@pytest.mark.parametrize(
    ("nbytes", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError)]
)
def test_a_limit_that_is_no_number_of_bytes_is_refused(nbytes, error):
    with pytest.raises(error, match="set_buffer_limit expects"):
        gradhook.cpu.set_buffer_limit(nbytes)
    gradhook.cpu.set_buffer_limit(1 << 80)  # as much as there is
