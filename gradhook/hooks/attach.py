"""attach: one hook on many modules of a model, chosen by name and type, behind one handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from gradhook.hooks.handle import RemovableHandle


class HandleGroup:
    """Handles of one `attach`, removed together by remove(), or on leaving a `with` block.

    handles: by the module's dotted name, in the model's order.
    """

    def __init__(self, handles: dict[str, RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove every hook. A second call does nothing."""
        for handle in self.handles.values():
            handle.remove()

    def __len__(self) -> int:
        return len(self.handles)

    def __iter__(self) -> Iterator[RemovableHandle]:
        return iter(self.handles.values())

    def __enter__(self) -> HandleGroup:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"HandleGroup({', '.join(self.handles)})"


def attach(
    model: Any,
    fn: Callable[..., Any],
    *,
    kind: str = "full_backward",
    name: str | tuple[str, ...] = "*",
    type: type | tuple[type, ...] | None = None,
    **options: Any,
) -> HandleGroup:
    """Register fn on every module of the model that fits, in the model's order.

    kind: "forward_pre", "forward", "full_backward_pre", "full_backward", "params_ready" and every
    other `register_<kind>_hook` of Module. name: a pattern (or several) for the dotted name, as
    of fnmatch: `"encoder.*"`, `"*.attn"`; the model itself has the name "". type: a class or
    several. options: for the register method (prepend, with_kwargs, when, ...). A module under
    several names gets the hook once. Which module a hook fires for says
    `gradhook.hooks.current_call()`.

    Returns one handle. Errors: ValueError for an unknown kind, or when no module fits; TypeError
    for what is no function. If one registration fails, none stays.
    """
    register = f"register_{kind}_hook"
    if not hasattr(model, register):
        kinds = sorted(
            n[len("register_") : -len("_hook")]
            for n in dir(model)
            if n.startswith("register_") and n.endswith("_hook")
        )
        raise ValueError(f"attach: found kind {kind!r}, expected one of {', '.join(kinds)}")
    patterns = (name,) if isinstance(name, str) else tuple(name)
    group = HandleGroup({})
    try:
        for path, module in model.named_modules():
            if any(fnmatchcase(path, p) for p in patterns) and (
                type is None or isinstance(module, type)
            ):
                group.handles[path] = getattr(module, register)(fn, **options)
    except BaseException:
        group.remove()
        raise
    if not group.handles:
        names = [path for path, _ in model.named_modules() if path][:5]
        raise ValueError(
            f"attach: no module of {model.__class__.__name__} has a name like {name!r}"
            + ("" if type is None else f" and the type {type!r}")
            + f"; names are {', '.join(map(repr, names))}, ..."
        )
    return group
