"""Named results of functions that return several tensors, as torch.return_types."""

from __future__ import annotations

from typing import Any, NamedTuple


class max(NamedTuple):
    """Result of max(dim)."""

    values: Any
    indices: Any


class min(NamedTuple):
    """Result of min(dim)."""

    values: Any
    indices: Any


class sort(NamedTuple):
    """Result of sort."""

    values: Any
    indices: Any


class topk(NamedTuple):
    """Result of topk."""

    values: Any
    indices: Any


class kthvalue(NamedTuple):
    """Result of kthvalue."""

    values: Any
    indices: Any


class median(NamedTuple):
    """Result of median(dim)."""

    values: Any
    indices: Any


class cummax(NamedTuple):
    """Result of cummax."""

    values: Any
    indices: Any


class cummin(NamedTuple):
    """Result of cummin."""

    values: Any
    indices: Any


class aminmax(NamedTuple):
    """Result of aminmax."""

    min: Any
    max: Any
