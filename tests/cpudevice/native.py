"""The C++ part: built once for its content, loaded before CuPy, called through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
COUNTERS = (  # the order of device.h
    "launches h2d d2h d2d memsets stream_syncs device_syncs event_syncs blocking_copies "
    "free_syncs bytes_h2d bytes_d2h bytes_d2d mallocs frees host_allocs graph_launches threads"
).split()
SYNCS = ("stream_syncs", "device_syncs", "event_syncs")
CXX = os.environ.get("CXX", "g++")
LIBRARIES = ("cublas", "curand")  # doubled with stubs for what CuPy imports beyond
LOADED: ctypes.CDLL | None = None


def _folder_of(module: str) -> Path | None:
    found = importlib.util.find_spec(module)
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) if places else None


def cuda_headers() -> Path | None:
    """The header folder of the wheel nvidia-cuda-runtime-cu12."""
    nvidia = _folder_of("nvidia")
    path = nvidia / "cuda_runtime" / "include" if nvidia else None
    return path if path and (path / "cuda_runtime_api.h").is_file() else None


def why_not() -> str | None:
    """What is missing for the device, in words; None when all is there."""
    if not sys.platform.startswith("linux"):
        return f"it needs Linux, found {sys.platform}"
    if shutil.which(CXX) is None or shutil.which("nm") is None:
        return f"the compiler {CXX} or binutils is not installed (apt install g++)"
    if _folder_of("cupy_backends") is None:
        return "CuPy is not installed (pip install cupy-cuda12x)"
    if cuda_headers() is None:
        return "CUDA's headers are not installed (pip install nvidia-cuda-runtime-cu12)"
    return None


@cache
def compiler() -> str:
    """The compiler and its version, one line: part of every cache key."""
    return subprocess.check_output([CXX, "--version"], text=True).splitlines()[0]


@cache
def cache_folder() -> Path:
    """$CPUDEVICE_CACHE, else ~/.cache/cpudevice. RuntimeError unless it is ours alone to write:
    libraries are loaded from it.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.environ.get("CPUDEVICE_CACHE") or Path(base, "cpudevice"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise RuntimeError(
            f"{folder} belongs to another user or others may write it; set CPUDEVICE_CACHE to a "
            "folder of your own"
        )
    return folder


def key_of(*parts: object) -> str:
    """A short name for content."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def _sources() -> list[Path]:
    return sorted(p for d in ("src", "include") for p in (HERE / d).rglob("*") if p.is_file())


def _imported(library: str) -> set[str]:
    """The functions of a CUDA library that CuPy's module for it imports."""
    folder = _folder_of("cupy_backends") / "cuda" / "libs"
    (path,) = folder.glob(f"{library}.*.so")
    text = subprocess.check_output(["nm", "-D", "--undefined-only", str(path)], text=True)
    names = (line.split()[-1].partition("@")[0] for line in text.splitlines())
    return {name for name in names if name.startswith(library)}


def _stubs(library: str) -> str:
    """C++ for the imported functions that the double's source does not define: noted, they fail."""
    text = (HERE / "src" / f"{library}.cpp").read_text("utf-8")
    letters = "SDCZ"  # CPUDEVICE_GEMM defines each for these
    for letter in letters:
        text += " ".join(f"cublas{letter}{f}(" for f in ("gemm_v2", "gemmBatched", "geam"))
    lacking = sorted(name for name in _imported(library) if f"{name}(" not in text)
    body = "\n".join(f'int {name}() {{ return lacking("{name}"); }}' for name in lacking)
    return f'#include "library.h"\nextern "C" {{\n{body}\n}}\n'


def _build(folder: Path) -> None:
    """All libraries into a folder: every source at once, then three links."""
    include = [f"-I{HERE / d}" for d in ("include", "src")] + [f"-I{cuda_headers()}"]
    include.append(f"-I{sysconfig.get_paths()['include']}")
    for library in LIBRARIES:
        (folder / f"{library}_stubs.cpp").write_text(_stubs(library), "utf-8")
    sources = [*(HERE / "src").glob("*.cpp"), *folder.glob("*.cpp")]
    flags = ["-std=c++20", "-O2", "-g0", "-fPIC", "-w", *include]
    running = [
        (path, subprocess.Popen([CXX, *flags, "-c", path, "-o", folder / f"{path.stem}.o"]))
        for path in sources
    ]
    failed = [path.name for path, child in running if child.wait()]
    if failed:
        raise RuntimeError(f"the CPU test device does not build: {', '.join(failed)}; see above")

    def link(output: str, soname: str, *objects: str, needs: bool = True) -> None:
        command = [CXX, "-shared", f"-Wl,-soname,{soname}", "-o", folder / output]
        command += [folder / f"{name}.o" for name in objects]
        command += [f"-L{folder}", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"] if needs else ["-ldl"]
        subprocess.check_call(command)

    device = ("device", "runtime_memory", "runtime_streams", "driver", "missing")
    link("libcuda.so.1", "libcuda.so.1", *device, needs=False)
    link("libcublas.so.12", "libcublas.so.12", "cublas", "cublas_stubs")
    link("libcurand.so.10", "libcurand.so.10", "curand", "curand_stubs")
    link("cupy_table.so", "cupy_table.so", "cupy_table")
    for path in [*folder.glob("*.o"), *folder.glob("*.cpp")]:
        path.unlink()


@cache
def library_folder() -> Path:
    """The built libraries for this content, compiler, Python and CuPy; built when not there."""
    modules = [p.name for p in (_folder_of("cupy_backends") / "cuda" / "libs").glob("*.so")]
    facts = (compiler(), sys.version, sorted(modules), cuda_headers())
    key = key_of(*facts, *(p.read_text("utf-8") for p in [*_sources(), Path(__file__)]))
    folder = cache_folder() / f"device-{key}"
    if folder.is_dir():
        return folder
    fresh = Path(tempfile.mkdtemp(dir=cache_folder()))
    try:
        _build(fresh)
        fresh.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def load() -> None:
    """Load the doubles and swap CuPy's table of runtime functions for the device's."""
    global LOADED
    folder = library_folder()
    LOADED = ctypes.CDLL(str(folder / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
    for name in ("libcublas.so.12", "libcurand.so.10"):
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    _keep_real_libraries_out()
    runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    table().install(runtime)


@cache
def table():
    """The extension module built of cupy_table.cpp."""
    spec = importlib.util.spec_from_file_location("cupy_table", library_folder() / "cupy_table.so")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _keep_real_libraries_out() -> None:
    """CuPy preloads CUDA's libraries by path; ours are loaded under their names already."""
    finder = importlib.import_module("cuda.pathfinder")
    original = finder.load_nvidia_dynamic_lib

    def load_unless_doubled(name: str, *rest, **named):
        return None if name in LIBRARIES else original(name, *rest, **named)

    finder.load_nvidia_dynamic_lib = load_unless_doubled


def call(name: str, *arguments: int) -> int:
    """Call a control function of device.cpp. RuntimeError before start()."""
    if LOADED is None:
        raise RuntimeError("cpudevice.start() was not called")
    return getattr(LOADED, name)(*arguments)


def counters() -> dict[str, int]:
    """All counters, and `syncs`: how often the host was asked to wait."""
    values = (ctypes.c_uint64 * len(COUNTERS))()
    call("cpudevice_counters", values)
    found = dict(zip(COUNTERS, map(int, values), strict=True))
    return {**found, "syncs": sum(found[name] for name in SYNCS)}


def lines(name: str) -> list[str]:
    """The text lines of a control function that fills a buffer."""
    buffer = ctypes.create_string_buffer(1 << 20)
    call(name, buffer, len(buffer))
    return buffer.value.decode().splitlines()
