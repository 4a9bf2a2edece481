"""The base of pruning methods, and the container of several that act on one tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradhook.creation import ones_like
from gradhook.nn.module import Module
from gradhook.nn.utils.hooked import hooks_of
from gradhook.tensor import Tensor


class BasePruningMethod(ABC):
    """A forward-pre hook that makes `name` anew from the parameter `name_orig` and the buffer
    `name_mask`; a subclass says which entries to prune.

    A subclass sets PRUNING_TYPE, which is what compute_mask gets when a tensor is pruned again:
    "unstructured" (a vector of the entries that are left), "structured" (the channels along its
    `dim` of which anything is left) or "global" (all). Source:
    torch.nn.utils.prune.BasePruningMethod.
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._name(module, "has to be pruned"), self.apply_mask(module))

    def _name(self, module: Module, what: str) -> str:
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} {what}")
        return self._tensor_name

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of a tensor, its shape: 0 for what is pruned.

        t: the importance of each entry; default_mask: the mask so far, which must not be written.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor: `name_mask` * `name_orig`, with its history."""
        name = self._name(module, "has to be pruned")
        mask: Tensor = getattr(module, name + "_mask")
        original: Tensor = getattr(module, name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune a parameter of a module: register the hook and move the parameter to `name_orig`.

        A tensor that is pruned already gets a PruningContainer with this method after the others.
        importance_scores: what to judge its entries by, its shape (None: itself); other arguments
        go to the class. Returns the hook. Errors: AssertionError for scores of another shape; after
        an error the module is as it was.
        """
        found = [
            (key, hook)
            for key, hook in hooks_of(module, "_forward_pre_hooks", METHOD)
            if hook._tensor_name == name
        ]
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module "
                f"{module}. Use a PruningContainer."
            )
        method = cls(*args, **kwargs)
        method._tensor_name = name
        tensor: Any = getattr(module, name)
        scores = _scores(tensor, importance_scores, f"parameter {name} of {module}")
        with _unchanged_on_error(module):
            if found:
                hook: BasePruningMethod = _joined(found[0][1], method)
                mask = hook.compute_mask(scores, default_mask=getattr(module, name + "_mask"))
            else:
                hook = method
                mask = hook.compute_mask(scores, default_mask=ones_like(tensor))
                module.register_parameter(name + "_orig", tensor)
                del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, hook.apply_mask(module))
        for key, _ in found:
            del module._forward_pre_hooks[key]
        module.register_forward_pre_hook(hook)
        return hook

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """t with what this method prunes set to 0; shape of t.

        default_mask: the mask so far (None: ones); importance_scores: what to judge the entries by,
        shape of t (None: t). Errors: AssertionError for scores of another shape.
        """
        scores = _scores(t, importance_scores, "tensor t")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make `name` a parameter again, pruned as it is now; the object is that of `name_orig`."""
        name = self._name(module, "has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters[name + "_orig"]
        original.data = weight.detach()
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


@contextmanager
def _unchanged_on_error(module: Module) -> Iterator[None]:
    """Give the module back its attributes and members when what is done within fails."""
    own = module.__dict__
    members = ("_parameters", "_buffers", "_non_persistent_buffers_set")
    before = {**own, **{name: own[name].copy() for name in members}}
    try:
        yield
    except BaseException:
        own.clear()
        own.update(before)
        raise


def _joined(before: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    """A container of what acts on a tensor already and one more method."""
    earlier = before if isinstance(before, PruningContainer) else [before]
    return PruningContainer(*earlier, method)


def _scores(tensor: Tensor, scores: Tensor | None, what: str) -> Tensor:
    if scores is None:
        return tensor
    if scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs "
            f"{tensor.shape}"
        )
    return scores


METHOD: Any = BasePruningMethod  # an abstract class is no type[H] to mypy


class PruningContainer(BasePruningMethod):
    """Several pruning methods of one tensor, in the order in which they were applied.

    Its mask is that of the last one on what the others left. args: the methods.
    Errors: as add_pruning_method. Source: torch.nn.utils.prune.PruningContainer.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Put a method at the end.

        Errors: TypeError for what is none; ValueError for one of another tensor.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method on what default_mask leaves, and default_mask elsewhere.

        Errors: AttributeError for a structured method without `dim`; IndexError, ValueError.
        """
        method = self._pruning_methods[-1]
        at = _left(method, t, default_mask)
        partial = method.compute_mask(t[at], default_mask=default_mask[at])
        combined = default_mask.to(dtype=t.dtype).clone()
        combined[at] = partial.to(dtype=combined.dtype)
        return combined


def _left(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
    """The index of what a method may still prune."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return (slice(None),) * t.ndim
    if kind != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    dim = method.dim + t.ndim if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
    kept = mask.sum(dim=[d for d in range(t.ndim) if d != dim]) != 0
    return (slice(None),) * dim + (kept,) + (slice(None),) * (t.ndim - dim - 1)
