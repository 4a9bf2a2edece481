"""Failure: an exception in a worker, on its way to the main process."""

from __future__ import annotations

import pickle
import traceback
from typing import Any, NoReturn


class _Text(str):
    """A message that a KeyError, which shows the repr of its key, shows as it is."""

    __slots__ = ()
    __repr__ = str.__str__


class Failure:
    """What happened and where, without the exception's own frames.

    kind: its class, RuntimeError where that cannot be pickled. text: the worker's traceback.
    place: where it was, if not in the worker itself.
    """

    def __init__(self, error: BaseException, worker: int, place: str = "") -> None:
        kind: type[BaseException] = type(error)
        trace = "".join(traceback.format_exception(error))
        self.text = f"Caught {kind.__name__} in {place}DataLoader worker process {worker}.\n{trace}"
        try:
            pickle.dumps(kind)
        except Exception:  # a class made in a function, say
            kind = RuntimeError
        self.kind = kind

    def reraise(self) -> NoReturn:
        """Raise the same class with the worker's traceback as its message.

        RuntimeError for a class that takes no message, and for StopIteration, which would end the
        loop without a word.
        """
        raise self._exception() from None

    def _exception(self) -> BaseException:
        if issubclass(self.kind, StopIteration):
            return RuntimeError(self.text)
        message: Any = _Text(self.text) if issubclass(self.kind, KeyError) else self.text
        try:
            return self.kind(message)
        except Exception:  # its constructor wants other arguments
            return RuntimeError(self.text)
