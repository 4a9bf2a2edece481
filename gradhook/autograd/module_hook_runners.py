"""Fan one event of a module call out to its backward hooks, and check what each returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Protocol

from gradhook import profiler
from gradhook.autograd.binding import Binding
from gradhook.autograd.carriers import lent
from gradhook.autograd.graph import TensorMeta
from gradhook.autograd.hook_notes import hook_name, note_call
from gradhook.autograd.node_hooks import checked
from gradhook.hooks.calls import Call, get_here, new_here
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
    def pack(self, leaves: Sequence[Any]) -> tuple[Any, ...]: ...
    def unpack(self, result: tuple[Any, ...], leaves: Sequence[Any]) -> list[Any]: ...


Runner = Callable[..., tuple[Any, ...] | None]


class ModuleHookRunners(Call):
    """One call of a module, and its backward hooks. pre_hooks, full_hooks: their snapshots when it
    was called.

    Gradients go in and out in the shape of the call: a tuple, an entry an output or a positional
    argument.
    """

    __slots__ = (
        "_input_metas", "_output_metas", "full_hooks", "input_leaves", "inputs",
        "output_edge_indices", "outputs", "pre_hooks",
    )  # fmt: skip

    pre_hooks: tuple[Any, ...]
    full_hooks: tuple[Any, ...]
    inputs: CallLayout
    outputs: CallLayout
    input_leaves: Sequence[int]
    _input_metas: Sequence[tuple[Any, ...]]  # as BarrierNode.metas: half the price of TensorMetas
    output_edge_indices: Sequence[int]
    _output_metas: Sequence[tuple[Any, ...]]

    @property
    def pre_runner(self) -> Runner | None:
        """`pre_runner(grad_outputs)` runs every full backward pre-hook."""
        return self.run_pre_hooks if self.pre_hooks else None

    @property
    def full_runner(self) -> Runner | None:
        """`full_runner(grad_inputs, grad_outputs)` runs every full backward hook."""
        return self.run_full_hooks if self.full_hooks else None

    @property
    def input_metas(self) -> list[TensorMeta]:
        """Per input edge, what a gradient of it looks like."""
        return [TensorMeta._make(m) for m in self._input_metas]

    @property
    def output_edge_metas(self) -> list[TensorMeta]:
        """Per edge of the output barrier, what a gradient of it looks like."""
        return [TensorMeta._make(m) for m in self._output_metas]

    @property
    def input_leaf_metas(self) -> list[TensorMeta | None]:
        """Per input leaf, what a gradient of it looks like; None for one without an edge."""
        return _by_leaf(self.inputs, self.input_leaves, self.input_metas)

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
        replaced, hook = False, None
        here = get_here()
        if here.thread != get_ident():
            here = new_here()
        outer, here.call = here.call, self
        try:
            counting = counters()
            for hook in self.pre_hooks[first:] if first else self.pre_hooks:
                if counting:
                    result = self._counted(hook, grad_outputs)
                else:
                    result = hook(self.module, grad_outputs)
                if result is not None:
                    place = ("grad_output", "Backward pre", self.outputs, self.output_metas)
                    grad_outputs, replaced = self._checked(hook, result, grad_outputs, *place), True
        except BaseException as error:
            self.noted(error, "full backward pre-hook", hook, "ModuleOutputHookNode")
            raise
        finally:
            here.call = outer
        return grad_outputs if replaced else None

    def run_full_hooks(
        self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...], first: int = 0
    ) -> tuple[Any, ...] | None:
        """`hook(module, grad_input, grad_output)` each, from number `first` on; the replaced
        grad_inputs, None when none was. Errors: RuntimeError for gradients where no input takes
        one.
        """
        replaced, hook = False, None
        here = get_here()
        if here.thread != get_ident():
            here = new_here()
        outer, here.call = here.call, self
        try:
            counting = counters()
            for hook in self.full_hooks[first:] if first else self.full_hooks:
                if counting:
                    result = self._counted(hook, grad_inputs, grad_outputs)
                else:
                    result = hook(self.module, grad_inputs, grad_outputs)
                if result is not None and not self.is_nothing(hook, result):
                    place = ("grad_input", "Backward", self.inputs, self.input_leaf_metas)
                    grad_inputs, replaced = self._checked(hook, result, grad_inputs, *place), True
        except BaseException as error:
            self.noted(error, "full backward hook", hook, "ModuleInputHookNode")
            raise
        finally:
            here.call = outer
        return grad_inputs if replaced else None

    def replaced_inputs(
        self, leaves: list[Any], grad_outputs: tuple[Any, ...], first: int = 0
    ) -> list[Any] | None:
        """The full hooks over the gradients of all leaves of the call's arguments; the leaves
        after a replacement, None without one.
        """
        result = self.run_full_hooks(self.inputs.pack(leaves), grad_outputs, first)
        return None if result is None else self.inputs.unpack(result, leaves)

    def is_nothing(self, hook: Any, result: Any) -> bool:
        """Whether a full hook's result changes nothing since no input takes a gradient. Errors:
        RuntimeError for a gradient then.
        """
        if self.input_leaves:
            return False
        if isinstance(result, tuple) and all(r is None for r in result):
            return True
        raise RuntimeError(
            "Backward hook for Modules where no input requires gradient should always return None "
            f"or None for all gradients. (hook '{hook_name(hook)}' of {self.title})"
        )

    def noted(self, error: BaseException, kind: str, hook: Any, node: str = "") -> None:
        """Note on the error which hook of which module raised it."""
        note_call(error, kind, hook, self, node)

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
                f"hook '{hook_name(hook)}' of {self.title} returned a {type(result).__name__} "
                f"for {name}, expected None or a tuple of {layout.count} (one entry each)"
            )
        if len(result) != layout.count:
            raise RuntimeError(
                f"{word} hook returned an invalid number of {name}, got {len(result)}, but "
                f"expected {layout.count} (hook '{hook_name(hook)}' of {self.title})"
            )
        before = layout.unpack(shown, [])
        return layout.pack(self.checked_leaves(hook, name, layout, metas, before, tuple(result)))

    def checked_leaves(
        self, hook: Any, name: str, layout: CallLayout, metas: list[TensorMeta | None],
        before: list[Any], result: tuple[Any, ...],
    ) -> list[Any]:  # fmt: skip
        """The leaves with what a hook returned for their entries instead of `before`, each checked
        and lent again.
        """
        try:
            leaves = layout.unpack(result, before)
        except RuntimeError as error:
            raise RuntimeError(
                f"hook '{hook_name(hook)}' has changed the structure of {name} of {self.title}: "
                f"{error}"
            ) from None
        for k, (t, old) in enumerate(zip(leaves, before, strict=True)):
            if t is not None and t is not old:
                checked(hook, t, metas[k], f"{name}[{layout.owners[k]!r}] of {self.title}")
                leaves[k] = lent(t._a, t._node, t._nr)
        return leaves


def _by_leaf(
    layout: CallLayout, positions: Sequence[int], metas: Sequence[TensorMeta]
) -> list[TensorMeta | None]:
    found: list[TensorMeta | None] = [None] * layout.n_leaves
    for position, meta in zip(positions, metas, strict=True):
        found[position] = meta
    return found
