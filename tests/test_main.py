"""The command line: what it prints, and what it says when a package or a word is missing."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from gradhook import __main__ as command_line
from gradhook import backend, benchmarks


def test_info_prints_what_was_found(capsys):
    assert command_line.main(["info"]) == 0
    printed = capsys.readouterr().out
    for found in (np.__version__, "BLAS:", "devices:  cpu", "kernels:  accumulate"):
        assert found in printed
    if not backend.is_available():
        assert backend.why_not() in printed


def test_demo_without_its_packages_names_the_package_and_the_extra(capsys, monkeypatch):
    def fail(name):
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn.datasets")

    monkeypatch.setattr(command_line.importlib, "import_module", fail)
    assert command_line.main(["demo"]) == 1
    error = capsys.readouterr().err
    assert "sklearn.datasets" in error and "gradhook[demo]" in error


def test_demo_hands_its_own_arguments_on(monkeypatch):
    seen = []
    demo = types.SimpleNamespace(main=lambda arguments: seen.append(arguments))
    monkeypatch.setitem(sys.modules, "gradhook.demo.command", demo)
    assert command_line.main(["demo", "--epochs", "2"]) == 0
    assert seen == [["--epochs", "2"]]


def test_bench_hands_its_own_arguments_on(monkeypatch):
    seen = []
    monkeypatch.setattr(benchmarks, "main", lambda arguments: seen.append(arguments) or 0)
    assert command_line.main(["bench", "--out", "here"]) == 0
    assert seen == [["--out", "here"]]


def test_bench_without_its_suite_says_where_it_looked(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv(benchmarks.VARIABLE, str(tmp_path / "bench"))
    assert command_line.main(["bench"]) == 1
    error = capsys.readouterr().err
    assert str(tmp_path / "bench") in error and benchmarks.VARIABLE in error


def test_bench_without_its_packages_names_them_and_the_extra(capsys, monkeypatch, tmp_path):
    (tmp_path / "suite.py").touch()
    monkeypatch.setenv(benchmarks.VARIABLE, str(tmp_path))
    monkeypatch.setattr(benchmarks, "_PACKAGES", ("no_such_package",))
    assert command_line.main(["bench"]) == 1
    error = capsys.readouterr().err
    assert "no_such_package" in error and "gradhook[bench]" in error


@pytest.mark.parametrize("arguments", [[], ["train"], ["info", "--loud"]])
def test_a_wrong_call_ends_with_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        command_line.main(arguments)
    assert end.value.code == 2 and "usage: python -m gradhook" in capsys.readouterr().err
