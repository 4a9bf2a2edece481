"""Zip files, read with distrust: what an entry claims is checked before memory is given to it."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradhook.serialization.errors import LoadError, shown

CHUNK = 1 << 20
RATIO = 100  # deflated entries may grow by this, and by a mebibyte
ALIGNMENT = 64
ENCRYPTED = 0x1
HEADER = 30  # bytes of an entry's header before its name


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Whatever the zip module raises on a damaged file is one error."""
    try:
        yield
    except LoadError:
        raise
    except (
        *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error),
        *(struct.error, EOFError, OSError, RuntimeError, ValueError, LookupError, OverflowError),
    ) as error:
        text = str(error) or type(error).__name__
        raise LoadError(f"{what} is damaged or cut short: {text[:200]}") from error


class Archive:
    """The entries of a zip file.

    file: seekable, open for reading bytes. deflated: entries may be compressed. Errors: LoadError
    for one that is no zip file, or whose entries claim more than is in it.
    """

    def __init__(self, file: Any, deflated: bool = False) -> None:
        with _damage("the zip file"):
            self.nbytes = file.seek(0, 2)
            self._zip = zipfile.ZipFile(file)
            self.entries: dict[str, zipfile.ZipInfo] = {}
            packed = total = 0
            for info in self._zip.infolist():
                self._check(info, deflated)
                self.entries[info.filename] = info
                packed += info.compress_size
                total += info.file_size
        if packed > self.nbytes:
            raise LoadError(
                f"its entries claim {packed} bytes, the file has {self.nbytes}: it is cut short, "
                "or they overlap"
            )
        if total > RATIO * self.nbytes + CHUNK:
            raise LoadError(
                f"its entries claim to unpack to {total} bytes, over {RATIO} times the file's "
                f"{self.nbytes}; if you trust it, unpack and write it again without compression"
            )

    def _check(self, info: zipfile.ZipInfo, deflated: bool) -> None:
        name = shown(info.filename)
        if info.filename in self.entries:
            raise LoadError(f"the zip file has two entries named {name}")
        if info.flag_bits & ENCRYPTED:
            raise LoadError(f"the entry {name} is encrypted; write the file again without")
        if info.compress_type == zipfile.ZIP_STORED:
            if info.compress_size != info.file_size:
                raise LoadError(f"the entry {name} has two sizes, the zip file is damaged")
        elif not (deflated and info.compress_type == zipfile.ZIP_DEFLATED):
            raise LoadError(
                f"the entry {name} is compressed (method {info.compress_type}), checkpoints are "
                "not; unpack the file and zip it again without compression (zip -0)"
            )

    def read(self, name: str, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """An entry as a flat array of its own memory, checked against its checksum.

        dtype: whose itemsize divides the entry's. Errors: LoadError when it is missing or damaged.
        """
        info = self.entries.get(name)
        if info is None:
            raise LoadError(f"the entry {shown(name)} is missing")
        with _damage(f"the entry {shown(name)}"), self._zip.open(info) as entry:
            out = np.empty(info.file_size // np.dtype(dtype).itemsize, dtype)
            view = out.view(np.uint8).data
            done = 0
            while done < info.file_size:
                got = entry.readinto(view[done : done + CHUNK])  # type: ignore[attr-defined]
                if not got:
                    raise EOFError(f"{done} bytes of {info.file_size}")
                done += got
            if entry.read(1):
                raise EOFError(f"it is longer than {info.file_size} bytes")
        return out

    def text(self, name: str) -> str | None:
        """A short entry as text, None when there is none or it is no text."""
        info = self.entries.get(name)
        if info is None or info.file_size > 100:
            return None
        return self.read(name).tobytes().decode("ascii", "replace").strip()


class ArchiveWriter:
    """Writes a zip file of uncompressed entries whose bytes begin at multiples of 64.

    file: open for writing bytes. align: whether to pad. Entries carry no time: the same object
    makes the same file.
    """

    def __init__(self, file: Any, align: bool = True) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._align = align

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._zip.close()

    def write(self, name: str, *parts: Any) -> None:
        """Write an entry. parts: bytes, or contiguous arrays."""
        views = [memoryview(part).cast("B") for part in parts if _nbytes(part)]
        info = zipfile.ZipInfo(name)
        info.file_size = sum(view.nbytes for view in views)
        if self._align:
            info.extra = self._padding(info)
        with self._zip.open(info, "w") as entry:
            for view in views:
                for start in range(0, view.nbytes, CHUNK):
                    entry.write(view[start : start + CHUNK])

    def _padding(self, info: zipfile.ZipInfo) -> bytes:
        """An extra field, as PyTorch's ("FB"), that moves the bytes to the next multiple."""
        start = self._zip.start_dir + HEADER + len(info.filename.encode()) + 4
        if info.file_size * 1.05 > zipfile.ZIP64_LIMIT:
            start += 20  # the field that holds large sizes
        missing = -start % ALIGNMENT
        return b"FB" + struct.pack("<H", missing) + b"Z" * missing


def _nbytes(part: Any) -> int:
    return len(part) if isinstance(part, bytes) else int(part.nbytes)
