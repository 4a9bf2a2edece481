"""device: where an array lives, and the error for arrays that live elsewhere."""

from __future__ import annotations

from typing import Any, SupportsInt


class DeviceError(RuntimeError):
    """CUDA was asked for where there is none, or arrays of two devices were mixed."""


class device:
    """Where an array lives: device("cpu"), device("cuda"), device("cuda:0"), device("cuda", 0).

    type: "cpu" or "cuda". index: int, or None when not given. Immutable; compares and hashes by
    both, so "cuda" and "cuda:0" differ. RuntimeError for an unknown device string.
    Source: torch.device.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: SupportsInt | None = None) -> None:
        kind, number = _parse_device(type)
        if index is not None:
            if number is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: "
                    f"{type}"
                )
            number = int(index)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"device is immutable; make a new one instead of setting {name}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)


def _parse_device(text: str | int | device) -> tuple[str, int | None]:
    if isinstance(text, device):
        return text.type, text.index
    if isinstance(text, int) and not isinstance(text, bool):
        return "cuda", text
    if not isinstance(text, str):
        raise TypeError(f"device: found {text!r}, expected 'cpu', 'cuda' or 'cuda:<index>'")
    kind, colon, number = text.partition(":")
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"Expected one of cpu, cuda device type at start of device string: {text}"
        )
    if colon and not (number.isdecimal() and number.isascii()):
        raise RuntimeError(f"Invalid device string: '{text}'; expected 'cpu', 'cuda' or 'cuda:0'")
    return kind, int(number) if colon else None
