"""Native kernels where the compiler or the cache folder is not as one would wish: NumPy's formulas
run instead, or a fresh build, and never does a process end.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest
from native_process import ended, run, start

from gradhook.native import cache, compiler, library
from gradhook.native.errors import BuildError

pytestmark = pytest.mark.skipif(not library.is_available(), reason=library.why_not())
TINY = 'extern "C" int answer() { return 42; }\n'
CHECK = "check(); report()"
ONE_WARNING = "native CPU kernels are not built"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache folder of this process, for texts of the test's own."""
    monkeypatch.setattr(cache, "place", lambda: (tmp_path, ""))
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A cache folder with all that `check` needs."""
    place = tmp_path_factory.mktemp("built")
    assert run(CHECK, GRADHOOK_CACHE=str(place)) == {"why_not": "", "said": []}
    return place


# ---- the compiler


def test_without_a_compiler_the_formulas_run_and_nothing_is_said(tmp_path):
    found = run(CHECK, PATH=str(tmp_path), GRADHOOK_CACHE=str(tmp_path / "cache"))
    assert found["why_not"] == "no C++ compiler ($CXX, g++, c++, clang++)" and not found["said"]


def test_a_compiler_that_is_not_there_is_named(tmp_path):
    found = run(CHECK, CXX="no-such-compiler -m64", GRADHOOK_CACHE=str(tmp_path))
    assert "$CXX is 'no-such-compiler -m64'" in found["why_not"] and not found["said"]


def test_a_compiler_that_fails_is_said_once_with_its_first_complaint(tmp_path):
    bad = script(tmp_path / "bad", "echo one >&2; echo 'x.cpp:1: error: such a day' >&2; exit 1")
    found = run("check(); check(); report()", CXX=bad, GRADHOOK_CACHE=str(tmp_path / "cache"))
    assert "error: such a day" in found["why_not"]
    (said,) = found["said"]
    assert ONE_WARNING in said and "such a day" in said and "GRADHOOK_NATIVE=0" in said
    assert not list((tmp_path / "cache").iterdir())


STEP = """
F = gradhook.nn.functional
gradhook.manual_seed(3)
def step():
    conv, lstm = gradhook.nn.Conv2d(2, 3, 3), gradhook.nn.LSTM(12, 128)
    norm, last = gradhook.nn.LayerNorm(128), gradhook.nn.Linear(128, 128)
    params = [p for m in (conv, lstm, norm, last) for p in m.parameters()]
    optimizers = [gradhook.optim.Adam(params, lr=1e-2),
                  gradhook.optim.SGD(params, lr=1e-2, momentum=0.9)]
    x = gradhook.randn(64, 2, 10, 10)
    for _ in range(2):
        for optimizer in optimizers:
            y = F.max_pool2d(F.gelu(conv(x)), 2).reshape(8, 8, -1)[..., :12]
            z = last(norm(lstm(y)[0])).reshape(64, -1)
            loss = F.cross_entropy(z, gradhook.arange(64))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    large = gradhook.randn(40_000, requires_grad=True)
    large.tanh().sum().backward()
    return [p.detach().numpy() for p in (*params, large.grad)]
"""


def test_a_kernel_that_cannot_be_built_in_a_step_is_said_once_and_its_formula_runs(tmp_path):
    """The runtime was built; the first kernel fails, and no other one is tried."""
    real, tried = compiler.command()[0], tmp_path / "tried"
    only_runtime = script(
        tmp_path / "some",
        f"grep -q pthread_atfork library.cpp && exec {real} \"$@\"\n"
        f"echo x >> {tried}; echo 'error: not this one' >&2; exit 1",
    )  # fmt: skip
    code = STEP + "found = step(); report(status=library.status(), p=[a.tolist() for a in found])"
    given = {"GRADHOOK_CACHE": str(tmp_path / "cache")}
    found = run(code, CXX=only_runtime, **given)
    (said,) = found["said"]
    assert ONE_WARNING in said and "not this one" in said
    assert "no more are built" in found["status"] and tried.read_text() == "x\n"
    expected = run(code, GRADHOOK_NATIVE="0", **given)
    assert found["p"] == expected["p"]  # the same formulas


def test_kernels_that_lie_in_the_cache_are_used_after_a_build_failed(built, tmp_path):
    code = """
from gradhook.native import cache
def fail(*_): raise library.BuildError("no space")
cache.build = fail
gradhook.nn.functional.gelu(gradhook.ones(3))  # not in the cache
check()
from gradhook.kernels import rows
report(ran=rows.row_kernel("softmax", "float32").runs_on_host())"""
    copy = tmp_path / "cache"
    shutil.copytree(built, copy)
    copy.chmod(0o700)
    found = run(code, GRADHOOK_CACHE=str(copy))
    assert found["ran"] and len(found["said"]) == 1 and not found["why_not"]


def test_a_compiler_that_hangs_is_given_up_with_all_that_it_started(tmp_path):
    pid = tmp_path / "pid"
    hangs = script(tmp_path / "hangs", f"sleep 300 & echo $! > {pid}; wait")
    code = "from gradhook.native import compiler; compiler.SECONDS = 0.5; check(); report()"
    found = run(code, CXX=hangs, GRADHOOK_CACHE=str(tmp_path / "cache"))
    assert "took over 0.5 s" in found["why_not"] and len(found["said"]) == 1
    for _ in range(100):  # init may take a moment to reap it
        state = Path(f"/proc/{int(pid.read_text())}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the compiler started still runs")


def test_a_compiler_may_have_words_of_its_own(folder, monkeypatch):
    real = compiler.command()[0]
    monkeypatch.setenv("CXX", f"env {real} -DANSWER")
    monkeypatch.setattr(compiler, "command", compiler.command.__wrapped__)
    assert compiler.command()[1:] == (real, "-DANSWER")
    cache.library("words", "#ifndef ANSWER\n#error no\n#endif\n" + TINY)


def test_native_0_builds_nothing(tmp_path):
    place = tmp_path / "cache"
    found = run(CHECK, GRADHOOK_NATIVE="0", GRADHOOK_CACHE=str(place))
    assert found == {"why_not": "GRADHOOK_NATIVE=0", "said": []} and not place.exists()


# ---- the folder


def test_a_folder_with_spaces_and_one_that_must_be_made(tmp_path):
    place = tmp_path / "a b" / "übung 'c'"
    assert run(CHECK, GRADHOOK_CACHE=str(place)) == {"why_not": "", "said": []}
    assert all(cache.is_whole(path) for path in place.iterdir()) and list(place.iterdir())
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "settings",
    [
        {"GRADHOOK_CACHE": "/proc/gradhook"},
        {"HOME": "/proc/nobody", "XDG_CACHE_HOME": None, "GRADHOOK_CACHE": None},
    ],
    ids=["read-only", "home"],
)
def test_where_nothing_can_be_written_a_folder_of_the_process_is_used_and_removed(settings):
    code = """
from gradhook.native import cache
check()
folder, unusual = cache.place()
report(folder=str(folder), unusual=unusual, status=library.status())"""
    found = run(code, **settings)
    assert not found["why_not"] and not found["said"]
    assert "/proc" in found["unusual"] and "not kept" in found["status"]
    assert "gradhook-" in found["folder"] and not os.path.exists(found["folder"])


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_not_used(mode, tmp_path, monkeypatch):
    tmp_path.chmod(mode)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    found, unusual = cache.place.__wrapped__()
    assert found != tmp_path and "others may write to it" in unusual
    assert cache.is_own(found) and stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_owns_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    os.chown(tmp_path, 1234, -1)
    found, unusual = cache.place.__wrapped__()
    assert found != tmp_path and "another user's" in unusual


def test_a_library_that_others_may_write_to_is_refused_by_name(folder):
    path = cache.library("tiny", TINY)
    path.chmod(0o722)
    with pytest.raises(BuildError, match=f"{re.escape(str(path))}.* delete it"):
        cache.library("tiny", TINY)


def test_a_library_is_its_owners_whatever_the_umask(folder):
    before = os.umask(0o002)
    try:
        path = cache.library("tiny", TINY)
    finally:
        os.umask(before)
    assert cache.is_own(path) and cache.library("tiny", TINY) == path


def test_a_library_is_built_once_for_its_text_and_flags(folder, monkeypatch):
    path = cache.library("tiny", TINY)
    built = path.stat().st_ino
    assert cache.library("tiny", TINY).stat().st_ino == built
    assert cache.library("tiny", TINY + "// other\n") != path
    monkeypatch.setattr(cache, "identity", lambda: b"another compiler")
    assert cache.library("tiny", TINY) != path
    assert not list(folder.glob(".build-*"))


# ---- what lies in it


def half(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def changed(path):
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 64)


def foreign(path):
    path.write_bytes(b"no library" + cache._seal(b"no library"))


@pytest.mark.parametrize("damage", [half, changed, foreign, lambda path: path.write_bytes(b"")])
def test_a_damaged_library_is_built_again(damage, built, tmp_path):
    place = tmp_path / "cache"
    shutil.copytree(built, place)
    place.chmod(0o700)
    for path in place.iterdir():
        damage(path)
    assert run(CHECK, GRADHOOK_CACHE=str(place)) == {"why_not": "", "said": []}
    assert sorted(p.name for p in place.iterdir()) == sorted(p.name for p in built.iterdir())
    assert all(cache.is_whole(path) for path in place.iterdir())


def test_a_library_that_never_loads_is_given_up_after_one_more_build(folder, monkeypatch):
    count = []

    def build(text, work):
        count.append(text)
        path = Path(work, "library.so")
        path.write_bytes(b"no library")
        return path

    monkeypatch.setattr(cache, "build", build)
    monkeypatch.setattr(library.Failed, "why", "")
    with pytest.warns(RuntimeWarning, match=ONE_WARNING), pytest.raises(BuildError):
        library.load("tiny", TINY)
    assert len(count) == 2
    with pytest.raises(BuildError):
        library.load("tiny", TINY + "//")
    assert len(count) == 2


def test_processes_that_build_at_once_do_not_disturb_each_other(tmp_path):
    processes = [start(CHECK, GRADHOOK_CACHE=str(tmp_path)) for _ in range(3)]
    assert [ended(p) for p in processes] == [{"why_not": "", "said": []}] * 3
    assert len(list(tmp_path.iterdir())) == 2  # the runtime and softmax, nothing half made


def test_a_build_whose_process_ends_leaves_nothing_that_is_loaded(tmp_path):
    """It is killed while the compiler runs; the next one builds."""
    real = compiler.command()[0]
    slow = script(tmp_path / "slow", f'touch {tmp_path}/started; sleep 2; exec {real} "$@"')
    place = tmp_path / "cache"
    process = start(CHECK, CXX=slow, GRADHOOK_CACHE=str(place))
    while not (tmp_path / "started").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert not list(place.glob("*.so"))
    assert run(CHECK, GRADHOOK_CACHE=str(place)) == {"why_not": "", "said": []}


def test_info_says_what_native_kernels_are_built_with(capsys):
    from gradhook import __main__ as command_line

    assert command_line.main(["info"]) == 0
    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("native:")]
    for found in (compiler.command()[0], "-O3", str(cache.place()[0]), "threads", "float64 exp"):
        assert found in line


def test_info_says_why_there_are_none():
    from native_process import environment

    words = ["-m", "gradhook", "info"]
    done = subprocess.run(
        [os.sys.executable, *words], env=environment(GRADHOOK_NATIVE="0"), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert "native:   not used: GRADHOOK_NATIVE=0 (NumPy formulas instead)" in done.stdout
    assert "on the CPU not used: GRADHOOK_NATIVE=0" in done.stdout
