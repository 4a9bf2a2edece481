"""Optimizers that treat every element alike: what they share around the formula of one step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.optim import multi_tensor
from gradhook.optim.optimizer import Group, Optimizer, scalar
from gradhook.storage import bump
from gradhook.tensor import Tensor

PART = 1 << 15  # elements: a parameter, its gradient and its state are 640 kB of float32


class Elementwise(Optimizer):
    """Base of optimizers that step each element from its own value, gradient and state.

    A subclass gives `initial`, the state before the first step; `numbers`, what a step needs beside
    arrays; and `move`, the step. This class has the rest: parameters without a gradient stay and
    get no state; "maximize", "weight_decay" and "decoupled_weight_decay" of the group; complex
    parameters, stepped as pairs of real numbers; versions. functor: the step's function in
    kernels/optimizer.cu, which makes it one launch on CuPy. host_scalars: the names in the state
    that are numbers, 0-d float32 (float64 where that is the default dtype) in host memory.
    """

    functor: ClassVar[str]
    host_scalars: ClassVar[tuple[str, ...]] = ("step",)

    def initial(self, group: Group) -> dict[str, Any]:
        """The state of a parameter before its first step: a number for each name, which fills an
        array like the parameter unless it is one of host_scalars.
        """
        raise NotImplementedError(f"{type(self).__name__} has no initial(group)")

    def numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        """The numbers of this step; state: with this step counted. "keep" with "shrinks": what is
        left of the parameter before it moves. A 0-d device array is a number on the device.
        """
        raise NotImplementedError(f"{type(self).__name__} has no numbers(group, state)")

    def move(self, xp: Any, n: Any, a: Any, g: Any, out: Any, *state: Any) -> None:
        """The step: change `a` and the state's arrays in place. g: the gradient, which stays as it
        is; out: an uninitialised array like `a`; n: the numbers, as attributes.
        """
        raise NotImplementedError(f"{type(self).__name__} has no move(xp, n, a, g, out)")

    # ---- the loop --------------------------------------------------------------------------
    def update(self, group: Group) -> None:
        """One step of one group: one launch on CuPy, else array calls for each parameter."""
        initial = self.initial(group)
        names = [name for name in initial if name not in self.host_scalars]
        left = multi_tensor.elementwise(self, group, initial, names)
        if not left:
            return
        states, size, shared = self.state, len(initial), self.host_scalars == ("step",)
        count = dtype = n = None
        with np.errstate(all="ignore"):
            for p in left:
                slot = p._slot
                if slot is None or slot.grad is None:
                    continue
                state, a, g = states[p], p._a, slot.grad._a
                if len(state) < size:
                    self.started(p, initial)
                step = state["step"]._a
                step += 1
                if not shared or a.dtype is not dtype or step.item() != count:
                    count, dtype = step.item(), a.dtype
                    n = typed(self.all_numbers(group, state), a.real.dtype)
                tensors = [state[name] for name in names]
                self._moved_by_parts(n, a, g, [t._a for t in tensors])
                bump(p)
                for t in tensors:
                    bump(t)

    def _moved(self, n: Any, a: Any, g: Any, state: list[Any]) -> None:
        """Step one parameter."""
        xp = ARRAY_MODULES[type(a)]
        if a.dtype.kind == "c":
            a, g, *state = (reals(x) for x in (a, g, *state))
        if n.maximize:
            g = xp.negative(g, out=self.scratch(a, 1))
        if n.decays:
            decayed = self.scratch(a, 2)
            g = xp.add(g, xp.multiply(a, n.decay, out=decayed), out=decayed)
        if n.shrinks:
            xp.multiply(a, n.keep, out=a)
        self.move(xp, n, a, g, self.scratch(a), *state)

    def _moved_by_parts(self, n: Any, a: Any, g: Any, state: list[Any]) -> None:
        """Step one parameter: a large one in parts that stay in a core's cache from the first array
        call of `move` to its last.
        """
        if a.size < 2 * PART or type(a) is not np.ndarray:
            return self._moved(n, a, g, state)
        arrays = (a, g, *state)
        if not all([x.flags.c_contiguous for x in arrays]):
            return self._moved(n, a, g, state)
        flat = [x.reshape(-1) for x in arrays]
        for start in range(0, a.size, PART):
            part, by, *rest = [x[start : start + PART] for x in flat]
            self._moved(n, part, by, rest)

    def all_numbers(self, group: Group, state: dict[str, Any]) -> dict[str, Any]:
        """`numbers`, and what the base takes from the group."""
        decay = group.get("weight_decay", 0)
        n = {"maximize": group["maximize"], "decay": decay, "decays": bool(decay), "keep": 1.0}
        n["shrinks"] = bool(decay and group.get("decoupled_weight_decay"))
        if n["shrinks"]:
            n.update(decay=0, decays=False, keep=1 - value_of(group["lr"]) * decay)
        return {**n, **self.numbers(group, state)}

    # ---- state -----------------------------------------------------------------------------
    def started(self, p: Tensor, initial: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter, with all that belongs to it."""
        state: dict[str, Any] = self.state[p]
        if len(state) < len(initial):
            self.start_state(p, initial)
        return state

    def start_state(self, p: Tensor, initial: dict[str, Any]) -> None:
        """Make what a parameter's state lacks."""
        state, xp = self.state[p], ARRAY_MODULES[type(p._a)]
        for name, value in initial.items():
            if name in state:
                continue
            if name in self.host_scalars:
                state[name] = make(value.copy()) if backend.is_cupy(value) else scalar(value)
                continue
            array = xp.empty_like(p._a)
            array[...] = value * (1 + 1j) if array.dtype.kind == "c" else value
            state[name] = make(array)


def typed(numbers: dict[str, Any], dtype: Any) -> SimpleNamespace:
    """Numbers as attributes, floats in a dtype, as a Python float costs a ufunc a third more;
    beside float16 in float32, which then is what a ufunc computes in.
    """
    kind = np.float32 if dtype.itemsize < 4 else dtype.type
    return SimpleNamespace(**{k: kind(v) if type(v) is float else v for k, v in numbers.items()})


def shares(betas: Any) -> dict[str, Any]:
    """The numbers of two running means: what the first takes in, what the second keeps and takes
    in.
    """
    beta1, beta2 = (value_of(beta) for beta in betas)
    return {"share1": 1 - beta1, "beta2": beta2, "share2": 1 - beta2}


def value_of(value: Any) -> Any:
    """A hyperparameter as a number, or where it is a Tensor on a device as its 0-d array."""
    if not isinstance(value, Tensor):
        return value
    return value._a.reshape(()) if backend.is_cupy(value._a) else value._a.item()


def reals(a: Any) -> Any:
    """A complex array as its real and imaginary parts, in a last axis of two, sharing memory."""
    return a[..., None].view(a.real.dtype) if a.dtype.kind == "c" else a


def lerp(xp: Any, mean: Any, g: Any, weight: Any, out: Any) -> None:
    """mean += weight * (g - mean), in place. out: scratch."""
    xp.subtract(g, mean, out=out)
    xp.multiply(out, weight, out=out)
    xp.add(mean, out, out=mean)


def mean_square(xp: Any, square: Any, g: Any, keep: Any, share: Any, out: Any) -> None:
    """square = keep * square + share * g * g, in place. out: scratch."""
    xp.multiply(square, keep, out=square)
    xp.multiply(g, g, out=out)
    xp.multiply(out, share, out=out)
    xp.add(square, out, out=square)


def root(xp: Any, square: Any, eps: Any, out: Any) -> Any:
    """sqrt(square) + eps, in `out`, which may be `square`."""
    xp.sqrt(square, out=out)
    return xp.add(out, eps, out=out)
