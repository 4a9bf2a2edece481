"""The folder of libraries that were built.

A library is built once for its text, flags, compiler and processor: the file's name says which. It
is written beside its place and moved there, so that no process ever reads half of one, and ends
with its own digest, as loading a damaged library can end the process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from gradhook.native.compiler import build, identity
from gradhook.native.errors import BuildError

VARIABLE = "GRADHOOK_CACHE"
SEAL = b"gradhook library, sha256 of all before: "  # then the digest: the end of a whole library


def usual() -> Path:
    """$GRADHOOK_CACHE, else gradhook/native in $XDG_CACHE_HOME or ~/.cache. RuntimeError where
    there is no home.
    """
    given, base = os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(given or Path(base, "gradhook", "native")).expanduser().absolute()


@functools.cache
def place() -> tuple[Path, str]:
    """The folder of built libraries, and why it is not the usual one. One that cannot be written
    to, or that others own or may write to, is not used: a fresh one of this process is, and builds
    are not kept.
    """
    try:
        found = usual()
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_own(found):
            return _own_folder(), f"{found} is another user's, or others may write to it"
        if os.access(found, os.W_OK | os.X_OK):
            return found, ""
        return _own_folder(), f"{found} cannot be written to"
    except (OSError, RuntimeError) as error:
        return _own_folder(), str(error)


@functools.cache
def _own_folder() -> Path:
    import atexit

    folder, owner = tempfile.mkdtemp(prefix="gradhook-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


def is_own(path: Path) -> bool:
    """Whether only this user, or root, could have written what lies there."""
    found = path.stat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid in (os.geteuid(), 0) and not others_write


def library(name: str, text: str, may_build: bool = True) -> Path:
    """The path of the library of one C++ text, built unless it is there, whole.

    Errors: BuildError, with what the compiler said; OSError of the folder.
    """
    digest = hashlib.sha256(identity())
    digest.update(text.encode())
    path = place()[0] / f"{name}-{digest.hexdigest()[:24]}.so"
    if path.exists() and not is_own(path):
        raise BuildError(f"{path} is another user's, or others may write to it: delete it")
    if not is_whole(path):
        if not may_build:
            raise BuildError("a build failed before in this process")
        with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as work:
            built = build(text, work)
            content = built.read_bytes()
            built.chmod(0o700)  # whatever the umask lets others do
            built.write_bytes(content + _seal(content))
            os.replace(built, path)
    return path


def is_whole(path: Path) -> bool:
    """Whether a library is there as it was built."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    end = len(content) - len(_seal(b""))
    return end > 0 and content[end:] == _seal(content[:end])


def _seal(content: bytes) -> bytes:
    return SEAL + hashlib.sha256(content).digest()
