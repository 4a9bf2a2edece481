"""What a Tensor is made of, below everything that makes one."""

from __future__ import annotations

from typing import Any


class TensorFields:
    """The slots of a Tensor; tensor.py explains them. The compiled core reads them where they lie
    (layout.pxd)."""

    __slots__ = ("_a", "_node", "_nr", "_slot", "_v", "_view")

    _a: Any
    _node: Any
    _nr: int
    _slot: Any
    _v: Any
    _view: Any
