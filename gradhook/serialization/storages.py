"""The memory in a checkpoint: what a persistent id names, read once and only when asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradhook import backend
from gradhook.devices import device
from gradhook.serialization.archive import Archive
from gradhook.serialization.elements import Element
from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.values import equals
from gradhook.storage import Storage

Location = str | int | device | dict[str, str] | Callable[..., Any] | None


@dataclass(frozen=True)
class StorageKind:
    """A storage class of PyTorch's, such as FloatStorage. element: None for UntypedStorage."""

    element: Element | None


@dataclass(frozen=True)
class StoredArray:
    """One storage of a checkpoint, not read yet. element: None when it is only bytes; location:
    PyTorch's name of the device it was on.
    """

    element: Element | None
    key: str
    location: str
    nbytes: int


class Storages:
    """The storages of one checkpoint.

    archive: the zip file; prefix: the folder in it, with its slash; byteorder: "little" or "big";
    map_location: as of gradhook.load.
    """

    def __init__(
        self, archive: Archive, prefix: str, byteorder: str, map_location: Location
    ) -> None:
        self.archive, self.prefix, self.byteorder = archive, prefix, byteorder
        self.map_location = map_location
        self._flat: dict[tuple[str, ...], Any] = {}

    def persistent(self, name: Any) -> StoredArray:
        """What a persistent id names. Errors: LoadError for anything but a storage of the file."""
        if type(name) is not tuple or len(name) != 5 or not equals(name[0], "storage"):
            raise LoadError(f"its pickle names {shown(name)}, expected a storage")
        _, kind, key, location, numel = name
        wrong = type(kind) is not StorageKind or type(key) is not str or type(location) is not str
        if wrong or type(numel) is not int or numel < 0:
            raise LoadError("its pickle names a storage by other things than its class and size")
        entry = self.archive.entries.get(f"{self.prefix}data/{key}")
        if entry is None:
            raise LoadError(f"the entry {shown(f'data/{key}')} of a storage is missing")
        nbytes = numel * (kind.element.itemsize if kind.element else 1)
        if nbytes != entry.file_size:
            raise LoadError(
                f"the entry {shown(f'data/{key}')} has {entry.file_size} bytes, its storage "
                f"{nbytes if nbytes < 1 << 63 else 'more than 2**63'}"
            )
        return StoredArray(kind.element, key, location, nbytes)

    def flat(self, stored: StoredArray, element: Element, *changes: str) -> Any:
        """The storage as a flat array of an element type, on the device it goes to; asked again,
        the same array. changes: functions of the array module that its values went through.
        """
        key = (stored.key, element.name, *sorted(changes))
        found = self._flat.get(key)
        if found is None and changes:
            found = self.flat(stored, element)
            with backend.place(found):
                for change in changes:
                    found = getattr(backend.array_module(found), change)(found)
        elif found is None:
            if stored.nbytes % element.itemsize:
                raise LoadError(f"a storage of {stored.nbytes} bytes is no array of {element.name}")
            read = self.archive.read(f"{self.prefix}data/{stored.key}", element.stored)
            host = element.decoded(read, self.byteorder)
            found = backend.to_device(host, self.place(stored.location, host))
        self._flat[key] = found
        return found

    def place(self, location: str, host: Any = None) -> str:
        """The device that a storage of this place goes to. host: its values, for functions that
        PyTorch calls with them.
        """
        wish: Any = self.map_location
        if isinstance(wish, dict):
            wish = wish.get(location)
        elif callable(wish) and not isinstance(wish, device):
            wish = wish(Storage(host), location) if _takes_storage(wish) else wish(location)
            wish = wish.device if isinstance(wish, Storage) else wish
        if wish is not None:
            return str(device(wish))
        return location if location.startswith("cuda") and backend.is_available() else "cpu"


def _takes_storage(function: Callable[..., Any]) -> bool:
    """Whether a map_location is called as PyTorch's are, with a storage and a location."""
    try:
        inspect.signature(function).bind(None, "cpu")
    except (TypeError, ValueError):
        return False
    return True


def restored(location: Any) -> device:
    """A device named in a file. Errors: LoadError for what is no device."""
    try:
        return device(location)
    except (RuntimeError, TypeError):
        raise LoadError(
            f"it names the device {shown(location)}, expected 'cpu' or 'cuda'"
        ) from None
