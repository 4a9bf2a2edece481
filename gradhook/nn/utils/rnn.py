"""Sequences of several lengths: packed into the rows of all steps, or padded to one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np

from gradhook import creation, dtypes
from gradhook.nn.functional.padding import pad
from gradhook.nn.recorded import ops as xp
from gradhook.overloads.arguments import tensors_only
from gradhook.tensor import Tensor


class PackedSequence_(NamedTuple):
    """The fields of a PackedSequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences, longest first, as the rows of their first step, of their second, ...

    data: (sum of lengths, ...), batch_sizes: (longest length,), int64, on the CPU: the rows of each
    step. sorted_indices: where each sequence of the pack stood among those given, unsorted_indices:
    the way back; None when they were sorted already. pack_sequence and pack_padded_sequence make
    it. Errors: ValueError for batch_sizes elsewhere than on the CPU. Source: torch.nn.utils.rnn.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """data.to(...), the indices on its device; itself when nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        moved = [
            t if t is None else t.to(data.device)
            for t in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """The pack with its data on the CPU."""
        return self.to(*args, **{**kwargs, "device": "cpu"})

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The pack with its data on a CUDA device (the current one). Errors: DeviceError."""
        if args or "device" in kwargs:
            return self.to(*args, **kwargs)
        return self.to(**{**kwargs, "device": "cuda"})

    def double(self) -> Self:
        """The pack with data of float64."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> Self:
        """The pack with data of float32."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> Self:
        """The pack with data of float16."""
        return self.to(dtype=dtypes.float16)

    def long(self) -> Self:
        """The pack with data of int64."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> Self:
        """The pack with data of int32."""
        return self.to(dtype=dtypes.int32)

    def short(self) -> Self:
        """The pack with data of int16."""
        return self.to(dtype=dtypes.int16)

    def char(self) -> Self:
        """The pack with data of int8."""
        return self.to(dtype=dtypes.int8)

    def byte(self) -> Self:
        """The pack with data of uint8."""
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether data is on a CUDA device."""
        return self.data.device.type == "cuda"


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one, (n,), int64; None of None."""
    if permutation is None:
        return None
    places = creation.arange(permutation.numel(), device=permutation.device)
    return creation.empty_like(permutation).scatter_(0, permutation, places)


def _steps(sizes: list[int]) -> Iterator[tuple[int, int, int]]:
    """(first step, number of steps, rows of each) of the runs of equal batch sizes."""
    start = 0
    for rows, run in groupby(sizes):
        count = len(list(run))
        yield start, count, rows
        start += count


def _host_lengths(lengths: Any, batch: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The lengths as NumPy integers. Errors: RuntimeError with PyTorch's texts."""
    if isinstance(lengths, Tensor):
        if lengths.ndim != 1 or lengths.device.type != "cpu":
            raise RuntimeError(
                "'lengths' argument should be a 1D CPU int64 tensor, but got "
                f"{lengths.ndim}D {lengths.device.type} {lengths.dtype.title} tensor"
            )
        lengths = lengths._a
    found = np.asarray(lengths).astype(np.int64)
    if len(found) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(found)} "
            f"(batch_size={batch})"
        )
    if (found <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    return found


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """A pack of padded sequences.

    input: (length, batch, ...), batch first with batch_first; lengths: (batch,), a list or a CPU
    Tensor. enforce_sorted: they fall; without it they are sorted here. Errors: RuntimeError for
    lengths that do not fit. Source: torch.nn.utils.rnn.
    """
    if input.ndim < 2:
        raise IndexError(
            f"pack_padded_sequence expects an input of at least 2 dimensions, found {input.ndim}"
        )
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    axis = 0 if batch_first else 1
    found = _host_lengths(lengths, input.shape[axis])
    order = None
    if not enforce_sorted:
        places = np.argsort(-found, kind="stable")
        found = found[places]
        order = creation.tensor(places, device=input.device)
        input = xp.index_select(input, order, axis=axis)
    elif (np.diff(found) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if batch_first:
        input = input.transpose(0, 1)
    if found[0] > input.shape[0]:
        raise RuntimeError(
            f"pack_padded_sequence: the longest length is {found[0]}, but input has "
            f"{input.shape[0]} steps"
        )
    sizes = (found[None, :] > np.arange(found[0])[:, None]).sum(axis=1)
    rest = tuple(input.shape[2:])
    pieces = [
        xp.reshape(
            xp.slice_view(input, index=(slice(start, start + count), slice(rows))),
            shape=(count * rows, *rest),
        )
        for start, count, rows in _steps(sizes.tolist())
    ]
    return PackedSequence(xp.concat(*pieces, axis=0), creation.tensor(sizes, device="cpu"), order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences of a pack in their first order, padded to the longest or to total_length.

    Result: (length, batch, ...), batch first with batch_first, and the lengths, (batch,), int64, on
    the CPU. Errors: ValueError for a total_length below the longest. Source: torch.nn.utils.rnn.
    """
    sizes = sequence.batch_sizes._a
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        )
    batch, data = int(sizes[0]), sequence.data
    rest = tuple(data.shape[1:])
    below = (0, 0) * len(rest)
    pieces, row = [], 0
    for _, count, rows in _steps(sizes.tolist()):
        part = xp.slice_view(data, index=(slice(row, row + count * rows),))
        row += count * rows
        part = xp.reshape(part, shape=(count, rows, *rest))
        pieces.append(pad(part, (*below, 0, batch - rows), value=padding_value))
    padded = xp.concat(*pieces, axis=0)
    if total_length is not None and total_length > longest:
        padded = pad(padded, (*below, 0, 0, 0, total_length - longest), value=padding_value)
    if batch_first:
        padded = padded.transpose(0, 1)
    lengths = (sizes[:, None] > np.arange(batch)).sum(axis=0)
    if sequence.unsorted_indices is not None:
        padded = xp.index_select(padded, sequence.unsorted_indices, axis=0 if batch_first else 1)
        lengths = lengths[sequence.unsorted_indices.cpu()._a]
    return padded, creation.tensor(lengths, device="cpu")


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences, (length, ...) each, side by side: (longest length, number, ...), the number first
    with batch_first; dtype of the first.

    padding_side: "right" (after the sequence) or "left". Errors: RuntimeError, TypeError.
    Source: torch.nn.utils.rnn.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    listed = list(sequences)
    if not listed:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    for k, s in enumerate(listed):
        if not isinstance(s, Tensor):
            raise TypeError(
                f"expected Tensor as element {k} in argument 0, but got {type(s).__name__}"
            )
        if s.ndim == 0:
            raise RuntimeError(f"pad_sequence: sequence {k} has no length, it is 0-dimensional")
    longest = max(s.shape[0] for s in listed)
    rest = tuple(listed[0].shape[1:])
    padded = []
    for s in listed:
        _check_rest(s, rest)
        short = longest - s.shape[0]
        ends = (0, short) if padding_side == "right" else (short, 0)
        s = s if s.dtype == listed[0].dtype else s.to(dtype=listed[0].dtype)
        padded.append(pad(s, (*(0, 0) * len(rest), *ends), value=padding_value))
    return xp.stack(*padded, axis=0 if batch_first else 1)


def _check_rest(sequence: Tensor, rest: tuple[int, ...]) -> None:
    found = tuple(sequence.shape[1:])
    if found != rest:
        raise RuntimeError(
            f"pad_sequence: the sizes after the length must match, found {list(found)}, expected "
            f"{list(rest)} as in the first sequence"
        )


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of pad_sequence's result without their padding.

    padded_sequences: (length, batch, ...), batch first with batch_first; it is left as it is, where
    PyTorch transposes it in place. lengths: (batch,); those on a device are read. Errors:
    ValueError unless there are as many lengths as sequences. Source: torch.nn.utils.rnn.
    """
    listed = padded_sequences.unbind(0 if batch_first else 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [
        xp.clone(xp.slice_view(s, index=(slice(max(int(n), 0)),)))
        for s, n in zip(listed, counts, strict=True)
    ]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """A pack of sequences, (length, ...) each. enforce_sorted: as in pack_padded_sequence."""
    lengths = [int(s.shape[0]) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a pack, in their first order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
globals().update(
    {
        name: tensors_only(globals()[name], f"nn.utils.rnn.{name}")
        for name in __all__
        if name not in ("PackedSequence", "pad_sequence")  # which names an element itself
    }
)
