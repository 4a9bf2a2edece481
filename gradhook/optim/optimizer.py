"""Optimizer: parameter groups, state and its dict, and the one `step` that all optimizers share.

Also PyTorch's import path of the global step hooks; their tables may be rebound here.
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import chain
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.dtypes import float64, get_default_dtype
from gradhook.hooks.everywhere import every_optimizer, global_table
from gradhook.modes import enable_grad
from gradhook.optim import multi_tensor
from gradhook.optim.optimizer_hooks import (
    OptimizerHooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from gradhook.tensor import Tensor

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

Group = dict[str, Any]


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer(OptimizerHooks):
    """Base class of optimizers.

    params: an iterable of Tensors, of (name, Tensor) pairs, or of groups, dicts with "params" and
    options of their own; defaults: the options of groups that give none. A subclass defines
    `update(group)`, which changes the parameters of one group from their gradients, outside the
    graph. Attributes: param_groups, state (by parameter), defaults. Errors: TypeError, ValueError
    with PyTorch's texts. Source: torch.optim.Optimizer.
    """

    host_scalars: ClassVar[tuple[str, ...]] = ()  # names in the state that stay in host memory

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self._hook_step()
        self.defaults = defaults
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got gradhook.{params.dtype.title}Tensor"
            )
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._scratch: dict[Any, Any] = {}
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # ---- groups ----------------------------------------------------------------------------
    def add_param_group(self, param_group: Group) -> None:
        """Add a dict with "params" and options of its own.

        Errors: TypeError, ValueError with PyTorch's texts.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        self._take_names(group)
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(p).__name__}"
                )
            if not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        if len({id(p) for p in group["params"]}) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; each of them is stepped as often as it is listed",
                stacklevel=3,
            )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if known & {id(p) for p in group["params"]}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def _take_names(self, group: Group) -> None:
        """Split (name, parameter) pairs into the group's "param_names" and "params"."""
        named = [isinstance(p, tuple) for p in group["params"]]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            group["param_names"] = [name for name, _ in group["params"]]
            group["params"] = [p for _, p in group["params"]]
        if self.param_groups and ("param_names" in group) != (
            "param_names" in self.param_groups[0]
        ):
            what = "with" if "param_names" in group else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{what} names to the optimizer"
            )

    # ---- stepping --------------------------------------------------------------------------
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter once.

        closure: computes the loss anew, with gradients; its value is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self.update(group)
        return loss

    def update(self, group: Group) -> None:
        """Change the parameters of one group from their gradients.

        Parameters without a gradient stay.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update(group)")

    def with_gradients(self, group: Group) -> Iterator[tuple[Any, Any, Any]]:
        """(parameter, its array, its gradient's array) of those that have a gradient; with
        "maximize" the gradient is negated.
        """
        for p in group["params"]:
            slot = p._slot
            if slot is not None and slot.grad is not None:
                g = slot.grad._a
                yield p, p._a, -g if group.get("maximize") else g

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"] if set_to_none else multi_tensor.zero(group["params"]):
                slot = p._slot
                if slot is None or slot.grad is None:
                    continue
                if set_to_none:
                    slot.grad = None
                else:
                    p.grad = p.grad.detach().zero_()

    def scratch(self, a: Any, number: int = 0) -> Any:
        """An uninitialised array like `a`, shared by all parameters of that shape: valid until the
        next call.
        """
        key = (a.shape, a.dtype, type(a), number)
        found = self._scratch.get(key)
        if found is None:
            found = self._scratch[key] = ARRAY_MODULES[type(a)].empty(a.shape, a.dtype)
        return found

    def number(self, value: Any, a: Any) -> Any:
        """A number, or a 1-element Tensor, as a 0-d array beside `a`; cached, as Python numbers
        cost NumPy a call.
        """
        if isinstance(value, Tensor):
            return value._a.astype(a.dtype).reshape(())
        key = (value, a.dtype, type(a))
        found = self._scratch.get(key)
        if found is None:
            if len(self._scratch) > 4096:
                self._scratch.clear()
            found = self._scratch[key] = ARRAY_MODULES[type(a)].full((), value, dtype=a.dtype)
        return found

    # ---- state -----------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {name: value}}, "param_groups": [...]}, parameters being numbered over
        all groups. Pre-hooks run first; a post-hook may replace the result.
        """
        self._fire_state_dict_pre()
        numbers: dict[int, int] = {}
        for p in chain.from_iterable(g["params"] for g in self.param_groups):
            numbers.setdefault(id(p), len(numbers))
        groups = [
            {
                **{k: v for k, v in g.items() if k != "params"},
                "params": [numbers[id(p)] for p in g["params"]],
            }
            for g in self.param_groups
        ]
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        saved: dict[str, Any] = {"state": state, "param_groups": groups}
        return self._fire_state_dict_post(saved)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict() returned: options and, copied and cast to the parameters'
        dtype, the state.

        A pre-hook may replace state_dict; post-hooks see the loaded state. Nothing is changed when
        there is an error before those. Errors: TypeError for what is no such dict;
        ValueError when the number of groups or of their parameters differs.
        """
        if isinstance(state_dict, dict):
            state_dict = self._fire_load_pre(state_dict.copy())
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            found = (
                sorted(map(str, state_dict))
                if isinstance(state_dict, dict)
                else type(state_dict).__name__
            )
            raise TypeError(
                "expected an optimizer's state_dict with the keys 'state' and 'param_groups', "
                f"found {found}; pass what state_dict() of an optimizer returned"
            )
        groups, saved = self.param_groups, [dict(g) for g in state_dict["param_groups"]]
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = chain.from_iterable(s["params"] for s in saved)
        params = dict(zip(numbers, chain.from_iterable(g["params"] for g in groups), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _cast(params[key], value, self.host_scalars)
            else:
                state[key] = value
        self._load(
            {
                "state": state,
                "param_groups": [self._merged(g, s) for g, s in zip(groups, saved, strict=True)],
            }
        )
        self._fire_load_post()

    def _merged(self, group: Group, saved: Group) -> Group:
        merged = {
            **{k: deepcopy(v) for k, v in saved.items() if k != "params"},
            "params": group["params"],
        }
        if "param_names" in group:
            merged["param_names"] = group["param_names"]
        return merged

    def _load(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
        for own in self.state.values():
            for name in self.host_scalars:
                if name in own and not isinstance(own[name], Tensor):
                    own[name] = scalar(own[name])

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: hooks are not, as in PyTorch; deepcopy keeps them."""
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """An optimizer of its own over copies of the parameters (those of `memo` where they were
        copied already), with the same hooks: functions are shared, methods of what is copied are
        bound to the copy.
        """
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(deepcopy(self.__getstate__(), memo))
        made.__dict__.update(deepcopy(self._filled_tables(), memo))
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._scratch = {}
        self._load(state)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for k, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {k}"] if k else [f"Parameter Group {k}"]
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _cast(parameter: Tensor, value: Any, host: tuple[str, ...], key: str | None = None) -> Any:
    """A copy of a state value; tensors in the parameter's dtype and on its device, but for the step
    count. host: names of numbers that stay in host memory.
    """
    if isinstance(value, Tensor):
        a, floating = value._a, parameter.is_floating_point()
        if key in host:
            a = backend.to_host(a)
            if floating and key != "step":  # never narrower: float16 would lose it
                return make(a.astype(np.promote_types(a.dtype, parameter._a.dtype)))
        if key == "step" or key in host:
            return make(a.copy())
        if floating:
            a = a.astype(parameter._a.dtype)
        moved = make(a if a is not value._a else a.copy())
        return moved if moved.device == parameter.device else moved.to(parameter.device)
    if isinstance(value, dict):
        return {k: _cast(parameter, v, host, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, np.ndarray, OrderedDict)):
        return type(value)(_cast(parameter, v, host) for v in value)  # type: ignore[call-arg]
    return deepcopy(value)


def scalar(value: Any) -> Tensor:
    """A number of an optimizer's state as a 0-d Tensor in host memory, float32 or, where that is
    the default dtype, float64.
    """
    made: Tensor = make(
        np.array(value, np.float64 if get_default_dtype() == float64 else np.float32)
    )
    return made


class _GlobalTables(ModuleType):
    """The class of this Python module: its `_global_*` tables are those of every_optimizer."""

    _global_optimizer_pre_hooks = global_table(every_optimizer, "step_pre")
    _global_optimizer_post_hooks = global_table(every_optimizer, "step_post")


sys.modules[__name__].__class__ = _GlobalTables
