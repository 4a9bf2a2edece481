"""Lazy modules: they learn the shapes of their parameters from the input of their first call."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

from gradhook.hooks.handle import RemovableHandle
from gradhook.modes import no_grad
from gradhook.nn.module_load import Errors
from gradhook.nn.parameter import is_lazy
from gradhook.tensor import Tensor


class LazyModuleMixin:
    """What makes a Module lazy: put it before the Module in the bases, register
    UninitializedParameters, and define `initialize_parameters(*args, **kwargs)` to materialize them
    from the input of the first call, after which the module is a `cls_to_become` (None: stays).

    Cast and move the module before the first call. Both its state_dict and load_state_dict work
    before and after. Source: torch.nn.modules.lazy.LazyModuleMixin.
    """

    cls_to_become: type[Any] | None = None
    _load_hook: RemovableHandle
    _initialize_hook: RemovableHandle
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _lazy_load_hook(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Before loading: materialize what is initialized in the state_dict; a load that fails
        makes it uninitialized again.
        """
        for name, param in chain(self._parameters.items(), self._buffers.items()):
            value = state_dict.get(prefix + name)
            if is_lazy(param) and isinstance(value, Tensor) and not is_lazy(value):
                if isinstance(error_msgs, Errors):
                    error_msgs.undo.append(partial(_forget_shape, param, type(param), param.data))
                param.materialize(value.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters from the arguments of the first call; a lazy module defines
        it.
        """
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module has no shape yet."""
        return any(map(is_lazy, chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """The pre-hook of the first call: initialize, and be lazy no longer."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {module._get_name()} has not been fully initialized: its "
                "initialize_parameters has to materialize every uninitialized parameter and buffer"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> None:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )


def materialize(module: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    """Give what has no shape yet its own and draw it; what was loaded before keeps its values.

    shapes: of the parameters and buffers by name; those that are None are left out.
    """
    tensors = {name: getattr(module, name) for name in shapes}
    tensors = {name: t for name, t in tensors.items() if t is not None}
    loaded = [(t, t.detach().clone()) for t in tensors.values() if not is_lazy(t)]
    if len(loaded) == len(tensors):
        return
    with no_grad():
        for name, t in tensors.items():
            if is_lazy(t):
                t.materialize(shapes[name])
        module.reset_parameters()
        for t, values in loaded:
            t.copy_(values)


def _forget_shape(param: Any, kind: type, data: Tensor) -> None:
    param.data = data
    param.__class__ = kind


__all__ = ["LazyModuleMixin"]
