"""The threads of native kernels: results do not depend on their number, they sleep while idle, and
a fork, a signal and the process's floating-point mode are left as they were.
"""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from native_process import run

import gradhook
from gradhook.kernels import optimizer
from gradhook.native import library, threads
from gradhook.ops.namespace import table_namespace

native = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
XP = table_namespace(np)


@pytest.fixture(autouse=True)
def _number():
    before, applied = threads.Count.given, gradhook.get_num_threads()
    yield
    gradhook.set_num_threads(applied)
    threads.Count.given = before


def drawn(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- how many


def test_the_number_that_was_set_is_what_get_num_threads_says():
    gradhook.set_num_threads(3)
    assert gradhook.get_num_threads() == 3
    gradhook.set_num_threads(np.int64(5))
    assert gradhook.get_num_threads() == 5
    if library.is_available():
        assert library.runtime().gradhook_get_threads() == 5


@pytest.mark.parametrize("number", [0, -1, 1025])
def test_a_number_out_of_range_is_refused(number):
    with pytest.raises(RuntimeError, match=f"from 1 to 1024, but got {number}"):
        gradhook.set_num_threads(number)


@pytest.mark.parametrize("number", [1.0, "2", None])
def test_what_is_no_int_is_refused(number):
    with pytest.raises(TypeError, match=f"expects an int, but got {type(number).__name__}"):
        gradhook.set_num_threads(number)


@pytest.mark.parametrize(
    ("settings", "number"),
    [
        ({"GRADHOOK_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"OMP_NUM_THREADS": "2,4"}, 2),
        ({"GRADHOOK_NUM_THREADS": "many", "OMP_NUM_THREADS": "7"}, 7),
        ({"GRADHOOK_NUM_THREADS": "0", "OMP_NUM_THREADS": "2"}, 2),
        ({"GRADHOOK_NUM_THREADS": "99999"}, 1024),
    ],
)
def test_variables_say_how_many_threads_there_are(settings, number, monkeypatch):
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert threads.default_threads() == number


# ---- the same bits


def adam_step():
    rows = [tuple(drawn(n, seed=n + k) ** 2 for k in range(4)) for n in (40_001, 7, 100_000)]
    names = [*optimizer.fields("adam")[0], *optimizer.fields("adam")[1]]
    numbers = dict.fromkeys(names, 0.1) | {"keep": 0.9, "amsgrad": False, "maximize": False}
    optimizer.elementwise("adam", rows, numbers)
    return [a for row in rows for a in row]


def convolutions():
    x, weight, bias = drawn(9, 5, 13, 17), drawn(11, 5, 3, 2, seed=1), drawn(11, seed=2)
    g = drawn(9, 11, 13, 18, seed=3)
    where = {"padding": 1}
    return [
        XP.convolution(x, weight, bias, **where),
        XP.convolution_input(g, weight, shape=x.shape, **where),
        XP.convolution_weight(g, x, shape=weight.shape, **where),
    ]


def norms():
    x, g, weight = drawn(300, 333), drawn(300, 333, seed=1), drawn(333, seed=2)
    shapes = {"weight_shape": (333,), "bias_shape": (333,)}
    return [
        XP.layer_norm(x, weight, weight, axis=-1),
        *XP.layer_norm_vjp(g, x, weight, axis=-1, eps=1e-5, **shapes),
        XP.var(x, axis=0),
    ]


def losses():
    x, target = drawn(999, 101), np.arange(999) % 101
    each = XP.cross_entropy(x, target, reduction="none")
    mean = XP.cross_entropy(x, target, label_smoothing=0.1)
    return [each, mean, XP.cross_entropy_input(np.ones((), "f4"), x, target)]


SAMPLES = {
    "softmax": lambda: [XP.softmax(drawn(700, 77), axis=-1), XP.softmax(drawn(3, 50_001), axis=-1)],
    "gelu": lambda: [XP.gelu(drawn(200_003), approximate="none")],
    "layer_norm": norms,
    "cross_entropy": losses,
    "convolution": convolutions,
    "adam": adam_step,
}


@native
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_any_number_of_threads_gives_the_same_bits(name):
    found = []
    for number in (1, 2, 3, 7):
        gradhook.set_num_threads(number)
        found.append([a.tobytes() for a in SAMPLES[name]()])
    assert found[1:] == found[:1] * 3


@native
def test_several_threads_of_python_may_call_at_once():
    gradhook.set_num_threads(3)
    expected = {name: [a.tobytes() for a in f()] for name, f in SAMPLES.items()}
    wrong = []

    def work(name):
        for _ in range(5):
            if [a.tobytes() for a in SAMPLES[name]()] != expected[name]:
                wrong.append(name)

    started = [threading.Thread(target=work, args=(name,)) for name in SAMPLES for _ in range(2)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not wrong


# ---- forks, signals, sleep

USE = """
import os, signal, threading, time
gradhook.set_num_threads(4)
x = np.random.default_rng(0).standard_normal((400, 1000)).astype("f4")
def work():
    y = gradhook.softmax(gradhook.tensor(x), -1).numpy()
    return y.tobytes()
expected = work()
def in_child(function):
    # the status of a child that calls this; killed when it hangs
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        os._exit(0 if function() else 1)
    return os.waitpid(pid, 0)[1]
"""


@native
def test_a_child_of_a_fork_has_threads_of_its_own():
    code = """
def child(): return work() == expected and in_child(lambda: work() == expected) == 0
report(status=[in_child(child) for _ in range(3)], same=work() == expected)"""
    found = run(USE + code)
    assert found["status"] == [0, 0, 0] and found["same"]


@native
def test_a_fork_while_other_threads_compute_hangs_neither():
    code = """
stop, wrong = [], []
def others():
    while not stop:
        if work() != expected: wrong.append(1)
started = [threading.Thread(target=others) for _ in range(3)]
for t in started: t.start()
warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
status = [in_child(lambda: work() == expected) for _ in range(15)]
stop.append(1)
for t in started: t.join()
report(status=status, wrong=wrong)"""
    found = run(USE + code)
    assert found["status"] == [0] * 15 and not found["wrong"]


@native
def test_threads_sleep_while_there_is_no_work():
    code = """
count = len(os.listdir("/proc/self/task"))
before = time.process_time()
time.sleep(0.5)
report(threads=count, used=time.process_time() - before)"""
    found = run(USE + code)
    assert found["threads"] >= 4 and found["used"] < 0.1


@native
def test_signals_reach_the_main_thread_while_others_compute():
    code = """
seen = []
main = threading.main_thread()
signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread() is main))
def others():
    for _ in range(30): work()
thread = threading.Thread(target=others)
thread.start()
for _ in range(20):
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.005)
thread.join()
blocked = []
for task in os.listdir("/proc/self/task"):
    status = open(f"/proc/self/task/{task}/status").read()
    blocked.append(int(status.split("SigBlk:")[1].split()[0], 16) >> (signal.SIGINT - 1) & 1)
report(seen=seen, blocked=sorted(blocked))"""
    found = run(USE + code)
    assert found["seen"] and all(found["seen"])
    assert found["blocked"].count(1) == 3  # the native ones, and only those


@native
def test_a_keyboard_interrupt_comes_after_the_call():
    code = """
signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True: work()
except KeyboardInterrupt:
    pass
report(same=work() == expected)"""
    assert run(USE + code)["same"]


# ---- the floating-point mode

MODE = """
def mode():
    import ctypes, platform
    tiny = np.full(9, 1e-310) / np.full(9, 2.0)
    small = np.full(9, 1e-39, "f4") * np.full(9, np.float32(0.5))
    found = [tiny.tolist(), small.tolist(), ctypes.CDLL("libm.so.6").fegetround()]
    if platform.machine() == "x86_64":
        state = (ctypes.c_uint32 * 16)()
        ctypes.CDLL("libm.so.6").fegetenv(state)
        found += [state[0] & 0xffff, state[7] & 0xffc0]  # x87's mode, MXCSR without its flags
    return found
before = mode()
"""


@native
def test_the_floating_point_mode_is_as_before_loading_and_running():
    code = MODE + USE + "report(before=before, after=mode())"
    found = run(code)
    assert found["after"] == found["before"]
    assert found["before"][0] == [5e-311] * 9 and 0 < found["before"][1][0] < 1e-38


@native
def test_denormal_numbers_are_computed_with():
    """In every thread: none of them flushes to zero."""
    gradhook.set_num_threads(3)
    x = np.full(100_000, 2e-39, np.float32)
    np.testing.assert_allclose(XP.gelu(x, approximate="none"), 1e-39, rtol=1e-5)
    assert ctypes.sizeof(ctypes.c_void_p) == 8
