"""Module: the base of all layers and models.

Its other parts are in module_walk, module_cast, module_state, module_load, module_hooks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from gradhook.autograd.completion import Wanted
from gradhook.nn.entry import call_module
from gradhook.nn.module_cast import ModuleCast
from gradhook.nn.module_hooks import MemberFirst, ModuleHooks
from gradhook.nn.module_load import ModuleLoad
from gradhook.nn.parameter import Buffer, Parameter
from gradhook.nn.registration import everywhere, replaced
from gradhook.tensor import Tensor

_REGISTRIES = ("_parameters", "_buffers", "_modules")


def typename(value: Any) -> str:
    """The type of a value as error texts show it."""
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


class Module(ModuleLoad, ModuleCast, ModuleHooks):
    """Base class of all neural network modules.

    Assign Parameters, Buffers and Modules to attributes and they are registered; implement forward
    and call the module, which runs its hooks. Tables that hooks live in are made on demand, so a
    module without hooks pays nothing. Source: torch.nn.Module.
    """

    dump_patches: bool = False
    forward: Callable[..., Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} "
                "were given"
            )
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )

    __call__ = call_module

    def forward(self, *input: Any) -> Any:  # type: ignore[no-redef]
        """What a call computes; every module defines its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ---- registration ----------------------------------------------------------------------
    def _check_name(self, name: Any, what: str, registry: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(
                f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else "")
            )
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name in self.__dict__[registry] or not hasattr(self, name):
            return
        inherited = inspect.getattr_static(type(self), name, None)
        if name in self.__dict__ or not isinstance(inherited, MemberFirst):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (None: an absent one), or what a global parameter registration hook
        returned in its place.

        Errors: TypeError, KeyError, ValueError with PyTorch's texts.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(gradhook.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        if param is not None and everywhere.parameter_registration:
            param = replaced(everywhere.parameter_registration, Parameter, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter, or what a global buffer registration hook
        returned in its place; persistent: it is in the state_dict.

        Errors as PyTorch's.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (gradhook Tensor or "
                "None required)"
            )
        if everywhere.buffer_registration:
            tensor = replaced(everywhere.buffer_registration, Tensor, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module (None: an absent one), or what a global module registration hook
        returned in its place.

        Errors: TypeError, KeyError with PyTorch's texts.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._put_module(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """As add_module."""
        self.add_module(name, module)

    def _put_module(self, name: str, module: Module | None) -> None:
        if everywhere.module_registration:
            module = replaced(everywhere.module_registration, Module, self, name, module)
        self._modules[name] = module

    # ---- attributes ------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        for registry in _REGISTRIES:
            found = attributes.get(registry)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Module)):
            self._register(name, value)
            return
        attributes = self.__dict__
        if name in attributes.get("_parameters", ()):
            self._replace(
                name, value, "_parameters", "parameter", "gradhook.nn.Parameter or None expected"
            )
        elif name in attributes.get("_modules", ()):
            self._replace(
                name, value, "_modules", "child module", "gradhook.nn.Module or None expected"
            )
        elif isinstance(value, Buffer) or name in attributes.get("_buffers", ()):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _register(self, name: str, value: Any) -> None:
        """A Parameter or Module was assigned: it takes the name from whatever had it."""
        attributes = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in attributes:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        else:
            if "_modules" not in attributes:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            self._put_module(name, value)

    def _forget(self, name: str, keep: str) -> None:
        attributes = self.__dict__
        attributes.pop(name, None)
        for registry in _REGISTRIES:
            if registry != keep:
                attributes[registry].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _replace(self, name: str, value: Any, registry: str, what: str, expected: str) -> None:
        """A plain value was assigned to a registered name: only None fits."""
        if value is not None:
            raise TypeError(f"cannot assign '{typename(value)}' as {what} '{name}' ({expected})")
        if registry == "_modules":
            self._put_module(name, None)
        else:
            self.register_parameter(name, None)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (gradhook.nn.Buffer, "
                "gradhook.Tensor or None expected)"
            )
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        persistent = name not in self._non_persistent_buffers_set
        if isinstance(value, Buffer):
            persistent = value.persistent
        register = self.register_buffer
        if (
            getattr(register, "__func__", None) is Module.register_buffer
            or "persistent" in inspect.signature(register).parameters
        ):
            register(name, value, persistent)
        elif persistent:  # an override from before there was such an argument
            register(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__.get(registry, ()):
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> Iterable[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        for registry in _REGISTRIES:
            names |= set(self.__dict__.get(registry, ()))
        return sorted(n for n in names if not n[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state.get("_params_ready_hooks"):
            Wanted.modules.add(self)

    # ---- printing --------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What repr shows of this module beside its children; one line or several."""
        return ""

    def _child_reprs(self) -> list[tuple[str, str]]:
        return [(name, repr(module)) for name, module in self._modules.items()]

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + text.replace("\n", "\n  ") for name, text in self._child_reprs()
        ]
        if len(lines) <= 1 and not children:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
