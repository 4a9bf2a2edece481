"""Size: the shape of a tensor."""

from __future__ import annotations

import math
from typing import Any


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints that prints as `gradhook.Size([2, 3])`. Source:
    torch.Size.
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"gradhook.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(super().__add__(tuple(other)))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, other: Any) -> Size:
        return Size(super().__mul__(other))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)
