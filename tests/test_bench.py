"""The benchmark's contenders compute the same numbers; its table, environment and errors."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gradhook.ops.table import TABLE

ROOT = Path(__file__).resolve().parent.parent
if not (ROOT / "bench" / "rows.py").is_file():
    pytest.skip("bench/ is not in this copy of the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

compare, environment, hook_rows, op_rows, raw, rows, table = (
    importlib.import_module(f"bench.{name}")
    for name in ("compare", "environment", "hook_rows", "op_rows", "raw", "rows", "table")
)
SHORT = {  # the long rows, with less to do
    rows.ROWS[0].name: (rows.chain(False, length=20), lambda: raw.chain(20)),
    rows.ROWS[1].name: (rows.chain(True, length=20), lambda: raw.chain(20)),
    rows.ROWS[-2].name: (lambda lib: rows.wide(lib, length=50), lambda: raw.wide(50)),
    rows.ROWS[-1].name: (lambda lib: rows.deep(lib, length=50), lambda: raw.deep(50)),
}


@pytest.mark.parametrize("name", ["gradhook", "torch"])
@pytest.mark.parametrize("row", rows.ROWS, ids=[row.name for row in rows.ROWS])
def test_a_row_computes_what_numpy_computes(row, name):
    lib = rows.library(name)
    if lib is None:
        pytest.skip("PyTorch is not installed")
    build, numpy = SHORT.get(row.name, (row.build, row.raw))
    if row.only_products:
        if name == "torch" or (torch := rows.library("torch")) is None:
            pytest.skip("gradhook and PyTorch are compared with each other")
        numpy = partial(build, torch)
    work, reference = build(lib), numpy()
    for _ in range(2):
        work.step()
        reference.step()
    found, expected = work.values(), reference.values()
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype == np.float32 and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["gradhook", "torch"])
@pytest.mark.parametrize("row", hook_rows.HOOK_ROWS, ids=[r.name for r in hook_rows.HOOK_ROWS])
def test_the_hooks_of_a_hook_row_change_nothing(row, name):
    lib = rows.library(name)
    if lib is None:
        pytest.skip("PyTorch is not installed")
    found = []
    for hooked in (False, True):
        work = row.build(lib, hooked)
        work.step()
        found.append([v.tolist() for v in work.values()])
    assert found[0] == found[1] and found[0]


def test_a_hook_row_says_what_is_added_and_whether_that_is_good_enough():
    row = hook_rows.HOOK_ROWS[0]
    assert "1.00 us" in hook_rows.line(row, 1e-6, None)
    assert " met" in hook_rows.line(row, 1e-6, 1e-5)
    assert "NOT met" in hook_rows.line(row, 1e-6, 2e-6)


def test_compare_gives_each_contender_its_ratio():
    def work(n):
        return lambda: sum(range(n))

    timings = compare.compare(
        {"gradhook": work(30_000), "torch": work(3_000)}, rounds=3, sample_seconds=0.001
    )
    assert timings["gradhook"].ratio == 1
    assert timings["torch"].low <= timings["torch"].ratio <= timings["torch"].high
    assert all(timing.seconds > 0 for timing in timings.values())


def test_a_line_says_whether_its_target_was_met():
    own, raw_ = compare.Timing(1e-3, 1, 1, 1), compare.Timing(5e-4, 2, 1.9, 2.1)
    row = rows.ROWS[0]
    for ratio, verdict in ((0.5, " met"), (0.7, "NOT met")):
        timings = {"gradhook": own, "raw": raw_, "torch": compare.Timing(1, ratio, 0.4, 0.8)}
        assert verdict in table._line(row, timings)
    assert "met" not in table._line(row, {"gradhook": own, "raw": raw_})  # without torch


def test_the_environment_has_one_thread_and_no_foreign_kernels():
    before = {"HOME": "/", "OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_L2_SIZE": "1"}
    after = environment.cleaned(before)
    assert after["HOME"] == "/" and after["OMP_NUM_THREADS"] == "1"
    assert not set(environment.FOREIGN) & set(after)


def test_the_command_prints_a_row_and_names_the_rows_it_knows():
    def run(*arguments):
        command = [sys.executable, "-m", "bench", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    done = run("--rows", "MLP 64", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 3 and "MLP 64-128-128-10 step" in done.stdout
    wrong = run("--profile", "nothing so named")
    assert wrong.returncode == 2 and rows.ROWS[2].name in wrong.stderr


def test_gradhook_bench_writes_a_table_json_and_a_picture_from_any_folder(tmp_path):
    for package in ("pytest_benchmark", "rich", "matplotlib"):
        pytest.importorskip(package, reason=f"gradhook bench needs {package}")
    (tmp_path / "bench").mkdir()  # another folder of that name is not taken for the suite
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    environment_ = {**kept, "PYTHONPATH": str(ROOT)}  # under xdist pytest-benchmark times nothing
    command = [sys.executable, "-m", "gradhook", "bench", "--out", "out", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--device", "cpu", "--rows", "a forward hook"],
        cwd=tmp_path, env=environment_, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU: not measured, this is the CPU suite only" in done.stdout
    out = tmp_path / "out"
    (row,) = json.loads((out / "results.json").read_text("utf-8"))["rows"]
    assert row["device"] == "cpu" and row["contenders"]["raw"]["seconds"] > 0
    assert row["name"] in (out / "table.md").read_text("utf-8")
    assert (out / "bench.png").read_bytes().startswith(b"\x89PNG")
    underneath = json.loads((out / "pytest-benchmark.json").read_text("utf-8"))
    assert len(underneath["benchmarks"]) == 1


@pytest.mark.parametrize("name", ["exp", "multiply", "sum", "where", "cumsum", "layer_norm", "dot"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_an_op_and_its_numpy_calls_compute_the_same_gradients(name, size):
    sample = op_rows.samples(name)[size].get(name)
    if sample is None:
        pytest.skip("has no large sample")
    copies = 3 if op_rows.is_chain(TABLE[name], sample) else 1
    found = op_rows.recorded_step(name, sample, copies)()
    expected = op_rows.raw_step(TABLE[name], sample, copies)()
    # exp of exp of exp: the last digit of what an exponential is given counts up to 45 times
    rtol = 1e-5 if copies > 1 else 1e-6
    for t, g in zip(found, expected, strict=True):
        np.testing.assert_allclose(t.numpy(), g, rtol=rtol)


def test_the_rows_of_ops_are_printed(capsys):
    assert op_rows.run("cumprod", rounds=1) == 0
    printed = capsys.readouterr().out
    assert re.search(r"cumprod +[\d.]+ us +[\d.]+ us +[\d.]+", printed)
    assert "small: 1 of 1 ops within 3.0" in printed or "small: 0 of 1" in printed
    assert "ns an element touched" in printed


def test_the_container_is_built_from_files_that_are_here():
    dockerfile = ROOT / "Dockerfile"
    if not dockerfile.is_file():
        pytest.skip("the Dockerfile is not in this copy of the sources")
    text = dockerfile.read_text("utf-8")
    taken = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists() and f"!{name}" in taken
    assert re.search(r"^USER (?!0|root)", text, re.MULTILINE)
