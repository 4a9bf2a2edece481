"""Runners: fan one event of a module call out to all its backward hooks, check and pass on what
each returns.
"""

from __future__ import annotations

from typing import Any

from gradhook import profiler
from gradhook.autograd.module_hook_node import replaced
from gradhook.autograd.node_hooks import Lending, hook_name
from gradhook.nn import tree
from gradhook.tensor import Tensor


class Layout:
    """How the flattened leaves of a call lie in its top-level tuple: spec None when every entry is
    one leaf.
    """

    __slots__ = ("count", "leaves", "n_leaves", "spec", "tensors")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.count = len(values)
        if all(
            isinstance(v, Tensor) or v is None or isinstance(v, int | float | str) for v in values
        ):
            self.spec: tree.TreeSpec | None = None
            self.leaves: list[Any] = list(values)
        else:
            self.leaves, self.spec = tree.flatten(values)
        self.n_leaves = len(self.leaves)

    def rebuilt(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The values again, with these leaves."""
        return tuple(leaves) if self.spec is None else tree.unflatten(self.spec, leaves)

    def finish(self) -> None:
        """Forget the values themselves; remember which leaves are tensors."""
        self.tensors = [isinstance(v, Tensor) for v in self.leaves]
        self.leaves = []

    def pack(self, gradients: list[Any]) -> tuple[Any, ...]:
        """Gradients in the shape of the call: a container with tensors gets the same container,
        another value None.
        """
        if self.spec is None:
            return tuple(gradients)
        packed, start = [], 0
        for child in self.spec.children:
            end = start + child.n_leaves
            if child.kind is None:
                packed.append(gradients[start])
            elif any(self.tensors[start:end]):
                packed.append(tree.unflatten(child, gradients[start:end]))
            else:
                packed.append(None)
            start = end
        return tuple(packed)

    def unpack(self, result: tuple[Any, ...]) -> list[Any]:
        """The leaves of what a hook returned in that shape. Errors: RuntimeError for another
        structure.
        """
        if self.spec is None:
            return list(result)
        leaves: list[Any] = []
        for k, (entry, child) in enumerate(zip(result, self.spec.children, strict=True)):
            if entry is None:
                leaves += [None] * child.n_leaves
                continue
            found, spec = tree.flatten(entry)
            if spec != child:
                raise RuntimeError(
                    f"entry {k} has another structure ({spec}) than the call's value ({child})"
                )
            leaves += found
        return leaves


class _Runner:
    """module: whose hooks these are; hooks: their snapshot when the module was called."""

    __slots__ = ("hooks", "inputs", "module", "outputs")
    kind = ""

    def __init__(self, module: Any, hooks: tuple[Any, ...]) -> None:
        self.module = module
        self.hooks = hooks
        self.inputs: Layout | None = None
        self.outputs: Layout | None = None

    def _values(self, hook: Any, result: Any, layout: Layout, name: str, word: str) -> list[Any]:
        """A hook's result as leaves. Errors: TypeError for no sequence, RuntimeError for another
        count.
        """
        if isinstance(result, Tensor) and layout.count == 1:
            result = (result,)
        if not isinstance(result, tuple | list):
            raise TypeError(
                f"hook '{hook_name(hook)}' of {self._title()} returned a {type(result).__name__} "
                f"for {name}, expected "
                f"None or a tuple of {layout.count} (one entry each)"
            )
        if len(result) != layout.count:
            raise RuntimeError(
                f"{word} hook returned an invalid number of {name}, got {len(result)}, but "
                f"expected {layout.count} "
                f"(hook '{hook_name(hook)}' of {self._title()})"
            )
        return layout.unpack(tuple(result))

    def _title(self) -> str:
        return f"<{type(self.module).__name__}>"

    def _run(self, hook: Any, *gradients: Any) -> Any:
        token = profiler.module_path.get()
        profiler.module_path.set(type(self.module).__name__)
        try:
            return hook(self.module, *gradients)
        except BaseException as error:
            raise noted(error, self.kind, hook, self.module) from error.__cause__
        finally:
            profiler.module_path.set(token)


class PreRunner(_Runner):
    """`hook(module, grad_output)` for each full backward pre-hook."""

    __slots__ = ()
    kind = "full backward pre-hook"

    def __call__(self, outputs: Lending, metas: Any) -> None:
        layout = self.outputs
        assert layout is not None
        for hook in self.hooks:
            result = self._run(hook, layout.pack(outputs.tensors))
            if result is not None:
                values = self._values(hook, result, layout, "grad_output", "Backward pre")
                replaced(
                    outputs, hook, values, metas, lambda k: f"grad_output[{k}] of {self._title()}"
                )


class FullRunner(_Runner):
    """`hook(module, grad_input, grad_output)` for each full backward hook."""

    __slots__ = ()
    kind = "full backward hook"

    def __call__(self, inputs: Lending, outputs: list[Any], metas: Any) -> None:
        layout, grad_output = self.inputs, self.outputs
        assert layout is not None and grad_output is not None
        seen = grad_output.pack(outputs)
        for hook in self.hooks:
            result = self._run(hook, layout.pack(inputs.tensors[: layout.n_leaves]), seen)
            if result is None:
                continue
            if not any(metas):
                if isinstance(result, tuple) and all(r is None for r in result):
                    continue
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for "
                    f"all gradients. (hook '{hook_name(hook)}' of {self._title()})"
                )
            values = self._values(hook, result, layout, "grad_input", "Backward")
            values += inputs.tensors[
                layout.n_leaves :
            ]  # keyword arguments have no entry in grad_input
            replaced(inputs, hook, values, metas, lambda k: f"grad_input[{k}] of {self._title()}")


def noted(error: BaseException, kind: str, hook: Any, module: Any) -> BaseException:
    """The error with a note that names the hook and its module."""
    note = f"in {kind} '{hook_name(hook)}' of module <{type(module).__name__}>"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error
