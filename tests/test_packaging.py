"""The kernels travel: a wheel, a wheel made from the sdist and an editable install find them."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
for _package in ("build", "editables", "hatchling"):
    pytest.importorskip(_package, reason=f"needs {_package}: pip install 'gradhook[test]'")

FIND = """
import json, site, sys
before = len(sys.path)
site.addsitedir(sys.argv[1])  # as site-packages, so that an editable install's .pth is read
sys.path[:] = sys.path[before:] + sys.path[:before]
import gradhook.kernels as kernels
text = kernels.source("accumulate")
files = sorted(path.name for path in kernels.where().iterdir())
print(json.dumps([kernels.__file__, str(kernels.where()), kernels.names(), text, files]))
"""


def build(output: Path, *kinds: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), *kinds]
    result = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def unpack(wheel: Path, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def find(target: Path) -> tuple[Path, Path]:
    """The file of gradhook.kernels and the folder of kernels that an interpreter elsewhere sees."""
    command = [sys.executable, "-c", FIND, str(target)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=target, check=False)
    assert result.returncode == 0, result.stderr
    module, folder, names, text, files = json.loads(result.stdout)
    assert files == sorted(path.name for path in (ROOT / "kernels").iterdir())  # .h and .cpp, too
    assert names == sorted(path.stem for path in (ROOT / "kernels").glob("*.cu"))
    assert text == (ROOT / "kernels" / "accumulate.cu").read_text("utf-8")
    return Path(module), Path(folder)


def test_a_wheel_brings_the_kernels_and_nothing_of_the_tests(tmp_path):
    build(tmp_path / "dist", "--wheel")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    target = unpack(wheel, tmp_path / "target")
    module, folder = find(target)
    assert module == target / "gradhook" / "kernels" / "__init__.py"
    assert folder == target / "gradhook" / "_kernels"
    assert (target / "gradhook" / "py.typed").is_file()
    tops = {path.name for path in target.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"gradhook"}


def test_a_wheel_made_from_the_sdist_brings_the_same_files(tmp_path):
    build(tmp_path / "direct", "--wheel")
    build(tmp_path / "dist")  # the sdist, and the wheel from it
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "kernels/accumulate.cu"} <= members
    assert {"kernels/target_cpu.h", "kernels/threads_cpu.cpp"} <= members
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (direct,) = (tmp_path / "direct").glob("*.whl")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(direct) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())
    target = unpack(wheel, tmp_path / "target")
    assert find(target)[1] == target / "gradhook" / "_kernels"


def test_an_editable_install_finds_the_kernels_in_the_checkout(tmp_path):
    code = f"import hatchling.build as b; b.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    module, folder = find(unpack(wheel, tmp_path / "target"))
    assert module == ROOT / "gradhook" / "kernels" / "__init__.py"
    assert folder == ROOT / "kernels"
