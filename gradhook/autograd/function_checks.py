"""What a Function's forward must not have done to its ctx and its inputs."""

from __future__ import annotations

from typing import Any

from gradhook.autograd.binding import cell_of
from gradhook.autograd.graph import Node, NodeHooks
from gradhook.autograd.inplace import check_writable

OWN: dict[str, Any] = {"edges": (), "saved": (), "hooks": None}  # of the ctx before forward
KINDS = frozenset(
    n for n in Node.__annotations__ if n in vars(Node) and n not in Node.__slots__
)  # what the engine asks a class of nodes


def expect_own_names(cls: type, ctx: Any) -> None:
    """Errors: AttributeError for attributes of ctx that would hide the node's own."""
    taken = [n for n, value in OWN.items() if getattr(ctx, n) is not value]
    if hasattr(ctx, "seq"):
        taken.append("seq")
    taken += KINDS.intersection(vars(ctx))
    if isinstance(ctx.hooks, NodeHooks):  # registered by forward
        taken.remove("hooks")
    if taken:
        raise AttributeError(
            f"{cls.__name__}: ctx.{taken[0]} is the node's own attribute; keep the value under "
            f"another name than {', '.join((*OWN, 'seq', *sorted(KINDS)))}"
        )


def check_dirty(
    cls: type,
    ctx: Any,
    tensors: list[Any],
    outputs: list[Any],
    records: bool,
    versions: dict[int, int],
) -> None:
    """Count the writes to what forward marked as dirty. Errors: RuntimeError where it is not
    returned or must not be written.
    """
    for t in ctx.dirty_tensors:
        if not any(t is o for o in outputs):
            raise RuntimeError(
                f"Some elements marked as dirty during the forward method of {cls.__name__} were "
                f"not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
        if records:
            check_writable(cls.__name__, t)
        if t._version == versions.get(id(t)):
            cell_of(t)[0] += 1
