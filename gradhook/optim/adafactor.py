"""Adafactor: second moments of matrices as a row times a column."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.optim.checks import check_amounts, check_one_element, is_negative
from gradhook.optim.elementwise import lerp, value_of
from gradhook.optim.optimizer import Group, Optimizer, scalar
from gradhook.storage import bump
from gradhook.tensor import Tensor


class Adafactor(Optimizer):
    """p -= max(eps[1], RMS(p)) * min(lr, 1 / sqrt(step)) * u / max(1, RMS(u) / d), where u = g /
    max(sqrt(v), eps[0]) and v is the running mean of g * g, of which 1 - step ** beta2_decay is
    kept.

    With two axes or more only v's means R over the last and C over the last but one are kept: v =
    R * C / max(mean(R), eps[0]). eps[0] = None: the dtype's epsilon. weight_decay shrinks p first:
    p *= 1 - lr * weight_decay. maximize: climb. State: "step", "row_var" and "col_var", or
    "variance". foreach is accepted for PyTorch's sake. Errors: ValueError for values out of range;
    RuntimeError for complex parameters. Source: torch.optim.Adafactor; arXiv:1804.04235.
    """

    host_scalars = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        check_amounts(Learning_rate=lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check_amounts(epsilon1=eps[0] or 0.0, epsilon2=eps[1])
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if is_negative(weight_decay):
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @np.errstate(all="ignore")
    def update(self, group: Group) -> None:
        """One step of one group; nothing is read from a device."""
        lr = value_of(group["lr"])
        for p, a, g in self.with_gradients(group):
            if a.dtype.kind == "c":
                raise RuntimeError("Adafactor does not support complex parameters")
            state = self.state[p] or self.start_state(p)
            state["step"]._a += 1
            if not a.size:
                continue
            xp, count = ARRAY_MODULES[type(a)], state["step"]._a.item()
            tiny = np.finfo(a.dtype).eps if group["eps"][0] is None else group["eps"][0]
            size = xp.minimum(lr, count**-0.5) * xp.maximum(rms(xp, a), group["eps"][1])
            if group["weight_decay"]:
                a *= 1 - lr * group["weight_decay"]
            below = self._mean_square(xp, g, state, count ** group["beta2_decay"], tiny)
            step = g / xp.sqrt(xp.maximum(below, tiny * tiny))
            step *= size / xp.maximum(rms(xp, step) / group["d"], 1.0)
            xp.subtract(a, step, out=a, casting="same_kind")
            bump(p)

    def _mean_square(self, xp: Any, g: Any, state: dict[str, Any], share: float, tiny: Any) -> Any:
        """v with this gradient, of which `share` comes in."""
        square = g * g
        names = ("row_var", "col_var") if "row_var" in state else ("variance",)
        for name, axis in zip(names, (-1, -2), strict=False):
            have = state[name]
            new = square if name == "variance" else square.mean(axis, keepdims=True)
            lerp(xp, have._a, new, share, xp.empty_like(have._a))
            bump(have)
        if len(names) == 1:
            return state["variance"]._a
        row, column = state["row_var"]._a, state["col_var"]._a
        return row * column / xp.maximum(row.mean(-2, keepdims=True), tiny)

    def start_state(self, p: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        state: dict[str, Any] = self.state[p]
        xp, shape = ARRAY_MODULES[type(p._a)], tuple(p.shape)
        state["step"] = scalar(0.0)
        shapes = {"variance": shape}
        if len(shape) > 1:
            shapes = {"row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, shape[-1])}
        for name, one in shapes.items():
            state[name] = make(xp.zeros(one, p._a.dtype))
        return state


def rms(xp: Any, a: Any) -> Any:
    """The root of the mean of all squares, 0-d; of float16 in float32."""
    wide = a.astype(np.float32) if a.dtype.itemsize < 4 else a
    return xp.sqrt(xp.square(wide).mean())
