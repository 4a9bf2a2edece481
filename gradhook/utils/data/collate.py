"""Collating: a batch of a list of samples, over trees. Source of names and rules:
torch.utils.data.default_collate and default_convert.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from gradhook import backend, dtypes
from gradhook.creation import from_cupy, from_numpy, tensor
from gradhook.functions import stack
from gradhook.tensor import Tensor


def default_collate(batch: Any) -> Any:
    """One batch of a list of samples of the same structure.

    Tensors and NumPy arrays are stacked along a new first dimension, numbers become a 1-d tensor
    (float: float64, int: int64, bool: bool), strings and bytes a list; dicts, namedtuples, tuples
    and lists are collated by element, of which tuples become lists. What is no CUDA tensor stays
    on the CPU; `DataLoader(device=...)` moves whole batches.

    Errors: TypeError for other types and for arrays of objects and strings; RuntimeError for
    sequences of unequal lengths and arrays of unequal shapes.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray | np.generic) or backend.is_cupy(first):
        return stack([_tensor(sample) for sample in batch])
    if isinstance(first, float | int | complex):
        dtype = dtypes.float64 if isinstance(first, float) else None
        return tensor(list(batch), dtype=dtype, device="cpu")
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        columns = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return _mapping_like(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(default_collate, _columns(batch)))
    if isinstance(first, tuple):
        return list(map(default_collate, _columns(batch)))
    if isinstance(first, Sequence):
        return _sequence_like(first, map(default_collate, _columns(batch)))
    raise TypeError(_unknown(type(first)))


def default_convert(data: Any) -> Any:
    """The NumPy arrays and numbers of a tree as tensors, over the same memory; the rest stays.

    What a DataLoader with batch_size=None does to each sample. tuples become lists.
    """
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else _tensor(data)
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence):
        return _sequence_like(data, map(default_convert, data))
    return data


def _tensor(array: Any) -> Tensor:
    """A tensor over an array's memory. Errors: TypeError for objects and strings."""
    if array.dtype.kind in "SUO":
        raise TypeError(_unknown(array.dtype))
    if backend.is_cupy(array):
        return from_cupy(array)
    return from_numpy(np.asarray(array))


def _unknown(found: Any) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{found}; pass the DataLoader a collate_fn that makes a batch of it"
    )


def _columns(batch: Any) -> Iterable[tuple[Any, ...]]:
    """For each place in the samples, all samples' values. Errors: RuntimeError."""
    lengths = [len(sample) for sample in batch]
    if any(length != lengths[0] for length in lengths):
        raise RuntimeError(
            "each element in list of batch should be of equal size, found sizes "
            f"{sorted(set(lengths))}; pass the DataLoader a collate_fn that pads them"
        )
    return zip(*batch, strict=True)


def _mapping_like(example: Any, values: dict[Any, Any]) -> Any:
    """Values in a mapping of the example's type, with its other attributes; else a dict."""

    def filled() -> Any:
        made = copy.copy(example)
        made.update(values)
        return made

    return _built(filled if isinstance(example, MutableMapping) else type(example), values)


def _sequence_like(example: Any, values: Iterable[Any]) -> Any:
    """Values in a sequence of the example's type; else (a range, say) a list."""
    found = list(values)

    def filled() -> Any:
        made = copy.copy(example)
        for i, value in enumerate(found):
            made[i] = value
        return made

    return _built(filled if isinstance(example, MutableSequence) else type(example), found)


def _built(how: Callable[..., Any], values: Any) -> Any:
    """The container, or the plain one where its type cannot be made so."""
    try:
        return how(values) if isinstance(how, type) else how()
    except TypeError:
        return values
