"""Fan one event of a module call out to its backward hooks, and check what each returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gradhook import profiler
from gradhook.autograd.binding import Binding
from gradhook.autograd.carriers import lent
from gradhook.autograd.graph import TensorMeta
from gradhook.autograd.node_hooks import checked, hook_name
from gradhook.profiler import counters


class CallLayout(Protocol):
    """How the leaves of a call (its flattened arguments, or outputs) lie in its top-level tuple.

    count: entries of that tuple; n_leaves: leaves, those of keyword arguments after the others;
    owners: the position (or keyword) that each leaf belongs to; single: one entry, one leaf.
    """

    count: int
    n_leaves: int
    single: bool

    @property
    def owners(self) -> tuple[int | str, ...]: ...
    def pack(self, leaves: list[Any]) -> tuple[Any, ...]: ...
    def unpack(self, result: tuple[Any, ...], leaves: list[Any]) -> list[Any]: ...


Runner = Callable[..., tuple[Any, ...] | None]


class ModuleHookRunners:
    """module: whose hooks these are; pre_hooks, full_hooks: their snapshots when it was called.

    Gradients go in and out in the shape of the call: a tuple, an entry an output or a positional
    argument.
    """

    __slots__ = (
        "__weakref__", "full_hooks", "input_leaves", "input_metas", "inputs", "module",
        "output_edge_indices", "output_edge_metas", "outputs", "pre_hooks",
    )  # fmt: skip

    module: Any
    pre_hooks: tuple[Any, ...]
    full_hooks: tuple[Any, ...]
    inputs: CallLayout
    outputs: CallLayout
    input_leaves: Sequence[int]
    input_metas: Sequence[TensorMeta]
    output_edge_indices: Sequence[int]
    output_edge_metas: Sequence[TensorMeta]

    @property
    def pre_runner(self) -> Runner | None:
        """`pre_runner(grad_outputs)` runs every full backward pre-hook."""
        return self.run_pre_hooks if self.pre_hooks else None

    @property
    def full_runner(self) -> Runner | None:
        """`full_runner(grad_inputs, grad_outputs)` runs every full backward hook."""
        return self.run_full_hooks if self.full_hooks else None

    @property
    def output_metas(self) -> list[TensorMeta | None]:
        """Per output leaf, what a gradient of it looks like; None for one without an edge."""
        return _by_leaf(self.outputs, self.output_edge_indices, self.output_edge_metas)

    def run_pre_hooks(
        self, grad_outputs: tuple[Any, ...], first: int = 0
    ) -> tuple[Any, ...] | None:
        """`hook(module, grad_output)` each, from number `first` on; the replaced gradients, None
        when none was.
        """
        replaced = False
        for hook in self.pre_hooks[first:]:
            try:
                if counters():
                    result = self._counted(hook, grad_outputs)
                else:
                    result = hook(self.module, grad_outputs)
            except BaseException as error:
                noted(error, "full backward pre-hook", hook, self.module)
                raise
            if result is not None:
                place = ("grad_output", "Backward pre", self.outputs, self.output_metas)
                grad_outputs, replaced = self._checked(hook, result, grad_outputs, *place), True
        return grad_outputs if replaced else None

    def run_full_hooks(
        self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...], first: int = 0
    ) -> tuple[Any, ...] | None:
        """`hook(module, grad_input, grad_output)` each, from number `first` on; the replaced
        grad_inputs, None when none was. Errors: RuntimeError for gradients where no input takes
        one.
        """
        replaced = False
        for hook in self.full_hooks[first:]:
            try:
                if counters():
                    result = self._counted(hook, grad_inputs, grad_outputs)
                else:
                    result = hook(self.module, grad_inputs, grad_outputs)
            except BaseException as error:
                noted(error, "full backward hook", hook, self.module)
                raise
            if result is None:
                continue
            if not self.input_leaves:
                if isinstance(result, tuple) and all(r is None for r in result):
                    continue
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    f"return None or None for all gradients. (hook '{hook_name(hook)}' of "
                    f"{self._title()})"
                )
            metas = _by_leaf(self.inputs, self.input_leaves, self.input_metas)
            place = ("grad_input", "Backward", self.inputs, metas)
            grad_inputs, replaced = self._checked(hook, result, grad_inputs, *place), True
        return grad_inputs if replaced else None

    def _title(self) -> str:
        return f"<{type(self.module).__name__}>"

    def _counted(self, hook: Any, *gradients: Any) -> Any:
        """Call a hook so that the transfers it causes count for its module."""
        with profiler.inside(self.module):
            return hook(self.module, *gradients)

    def _checked(
        self, hook: Any, result: Any, shown: tuple[Any, ...], name: str, word: str,
        layout: CallLayout, metas: list[TensorMeta | None],
    ) -> tuple[Any, ...]:  # fmt: skip
        """What a hook returned instead of `shown`, lent again for the next hook.

        Errors: TypeError for no sequence; RuntimeError for another count, structure, shape, dtype
        or device, or a gradient where none can be.
        """
        if isinstance(result, Binding.tensor) and layout.count == 1:
            result = (result,)
        if not isinstance(result, tuple | list):
            raise TypeError(
                f"hook '{hook_name(hook)}' of {self._title()} returned a {type(result).__name__} "
                f"for {name}, expected None or a tuple of {layout.count} (one entry each)"
            )
        if len(result) != layout.count:
            raise RuntimeError(
                f"{word} hook returned an invalid number of {name}, got {len(result)}, but "
                f"expected {layout.count} (hook '{hook_name(hook)}' of {self._title()})"
            )
        before = layout.unpack(shown, [])
        leaves = layout.unpack(tuple(result), before)
        for k, (t, old) in enumerate(zip(leaves, before, strict=True)):
            if t is not None and t is not old:
                checked(hook, t, metas[k], f"{name}[{k}] of {self._title()}")
                leaves[k] = lent(t._a, t._node, t._nr)
        return layout.pack(leaves)


def _by_leaf(
    layout: CallLayout, positions: Sequence[int], metas: Sequence[TensorMeta]
) -> list[TensorMeta | None]:
    found: list[TensorMeta | None] = [None] * layout.n_leaves
    for position, meta in zip(positions, metas, strict=True):
        found[position] = meta
    return found


def noted(error: BaseException, kind: str, hook: Any, module: Any) -> None:
    """Note on the error which hook of which module raised it."""
    note = f"in {kind} '{hook_name(hook)}' of module <{type(module).__name__}>"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
