"""The machine's C++ compiler: which one, its flags, and how a library is built with it."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from gradhook.native.errors import BuildError

FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math",
    "-fopenmp-simd", "-fvisibility=hidden", "-fPIC", "-shared", "-pthread",
)  # fmt: skip
# GCC moves what only one side of a ?: needs behind a branch, and then gives up on vectors
GCC = ("-fno-tree-pre", "-fno-tree-sink")
GCC_X86 = ("-mprefer-vector-width=512",)
SECONDS = 300  # a build that takes longer is given up
NAMES = ("g++", "c++", "clang++")


@functools.cache
def command() -> tuple[str, ...]:
    """How the C++ compiler is called: $CXX, which may have words of its own ("ccache g++"), else
    the first there is of g++, c++ and clang++; () without one.
    """
    given = os.environ.get("CXX", "").strip()
    if given:
        first, *rest = [given] if shutil.which(given) else shlex.split(given)
        found = shutil.which(first)
        return () if found is None else (found, *rest)
    return next(((found,) for name in NAMES if (found := shutil.which(name))), ())


def missing() -> str:
    """Why there is no compiler."""
    given = os.environ.get("CXX", "").strip()
    return f"no C++ compiler ({f'$CXX is {given!r}' if given else '$CXX, ' + ', '.join(NAMES)})"


def _programs() -> list[Path]:
    """The files of the command's programs, the compiler last."""
    found = [shutil.which(word) for word in command() if not word.startswith("-")]
    return [Path(path).resolve() for path in found if path is not None]


def is_clang() -> bool:
    """Whether the compiler is clang, by its file's name."""
    return any("clang" in path.name for path in _programs())


@functools.cache
def processor() -> str:
    """What `-march=native` means here: the processor's name and features."""
    wanted = ("vendor_id", "cpu family", "model\t", "model name", "flags", "Features", "CPU part")
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(line for line in text.splitlines() if line.startswith(wanted))


@functools.cache
def identity() -> bytes:
    """The compiler's files and all that decides what it makes of a text."""
    files = [(str(p), (state := p.stat()).st_size, state.st_mtime_ns) for p in _programs()]
    said = (files, command()[1:], flags(), LIBRARIES, processor(), sys.platform, libc())
    return repr(said).encode()


def flags() -> tuple[str, ...]:
    """The compiler's flags."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    return FLAGS if is_clang() else (*FLAGS, *GCC, *(GCC_X86 if x86 else ()))


@functools.cache
def libc() -> str:
    """The C library: "glibc 2.36"; "" for another."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return ""


def build(text: str, work: str) -> Path:
    """Build the library of a C++ text in this folder. Result: its path. Errors: BuildError, with
    what the compiler said; OSError of the folder.
    """
    if not command():
        raise BuildError(missing())
    source, built = Path(work, "library.cpp"), Path(work, "library.so")
    source.write_text(text, encoding="utf-8")
    said = _run([*command(), *flags(), source.name, "-o", built.name, *LIBRARIES], work)
    if said is not None:
        lines = (said.strip() or "no message").splitlines()
        first = next((line for line in lines if "error" in line), lines[0])
        raise BuildError(f"{shlex.join(command())} failed: {first}")
    return built


def _run(words: list[str], where: str) -> str | None:
    """Run the compiler; None if it succeeds, else what it said. It and all that it started end
    with this call.
    """
    try:
        started = subprocess.Popen(
            words, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise BuildError(f"{words[0]}: {error}") from error
    with started:
        try:
            _, said = started.communicate(timeout=SECONDS)
        except BaseException as error:
            os.killpg(started.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise BuildError(f"{words[0]} took over {SECONDS} s and was given up") from None
            raise
    return said if started.returncode else None


def vector_math() -> str:
    """What computes exp, log, log1p, tanh and erf of float64; those of float32 are our own."""
    numbers = libc().rpartition(" ")[2].split(".")
    version = tuple([int(n) for n in numbers if n.isdigit()])
    if "-lmvec" in LIBRARIES and version >= (2, 35) and not is_clang():
        return f"vectors of {libc()}"
    return "the C library, one number at a time"


def _vector_libraries() -> tuple[str, ...]:
    """The library of vector functions that kernels/math_cpu.h calls on x86 with glibc."""
    return ("-lmvec", "-lm") if platform.machine() == "x86_64" and libc() else ("-lm",)


LIBRARIES = _vector_libraries()
