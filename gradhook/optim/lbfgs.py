"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.modes import enable_grad
from gradhook.optim.checks import check_lr
from gradhook.optim.elementwise import reals
from gradhook.optim.line_search import Point, strong_wolfe
from gradhook.optim.optimizer import Optimizer
from gradhook.storage import bump
from gradhook.tensor import Tensor


class LBFGS(Optimizer):
    """Quasi-Newton steps: the inverse Hessian is known from the last history_size changes of
    parameters and gradient.

    step(closure) does up to max_iter iterations and about max_eval evaluations (None: max_iter * 5
    // 4), fewer when no component of the gradient is above tolerance_grad or a change is below
    tolerance_change. line_search_fn: None, steps of lr, or "strong_wolfe". Each evaluation is read
    on the host. There is one group only, on one device. State, in that of the first parameter:
    "func_evals", "n_iter", "d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad",
    "prev_loss", "al". Errors: ValueError for a negative lr and more groups than one; RuntimeError
    for an unknown line search. Source: torch.optim.LBFGS; Nocedal and Wright, algorithm 7.5.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Iterate; returns the first loss.

        closure: computes the loss anew, with gradients.
        """
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first = closure()
        state["func_evals"] += 1
        g = self._gradient()
        if largest(g) <= group["tolerance_grad"]:
            return first
        with np.errstate(all="ignore"):
            self._iterate(closure, state, np.float64(float(first)), g)
        return first

    def _iterate(self, closure: Any, state: dict[str, Any], loss: Any, g: Any) -> None:
        """The iterations of one step. loss, g: value and gradient where the parameters are."""
        group, evaluations = self.param_groups[0], 1
        lr, small = float(group["lr"]), group["tolerance_change"]
        for k in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(state, g)
            t = min(1.0, 1.0 / float(abs(g).sum())) * lr if state["n_iter"] == 1 else lr
            state.update(d=make(d), t=t, prev_flat_grad=make(g), prev_loss=float(loss))
            here = Point(0.0, loss, g, slope(g, d))
            if here.slope > -small:
                break
            if group["line_search_fn"] is not None:
                left = group["max_eval"] - evaluations
                new, count = self._search(closure, here, d, t, small, left)
                t, loss, g = float(new.t), new.f, new.g
                self._add(d, t)
            else:
                self._add(d, t)
                count = int(k < group["max_iter"])
                if count:
                    loss, g = self._evaluate(closure)
            state["t"] = t
            evaluations += count
            state["func_evals"] += count
            if (
                k == group["max_iter"]
                or evaluations >= group["max_eval"]
                or largest(g) <= group["tolerance_grad"]
                or largest(d) * abs(t) <= small
                or abs(loss - here.f) < small
            ):
                break

    def _direction(self, state: dict[str, Any], g: Any) -> Any:
        """The next direction, an array like the flat gradient g; what the last step showed joins
        the history.
        """
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -g
        size = self.param_groups[0]["history_size"]
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = g - state["prev_flat_grad"]._a, state["d"]._a * float(state["t"])
        ys = dot(y, s)
        if ys > 1e-10:
            if len(dirs) == size:
                del dirs[0], steps[0], ro[0]
            dirs.append(make(y))
            steps.append(make(s))
            ro.append(make(1.0 / ys))
            state["H_diag"] = make(ys / dot(y, y))
        al = state.setdefault("al", [None] * size)
        q = -g
        for i in reversed(range(len(dirs))):
            al[i] = make(dot(steps[i]._a, q) * ro[i]._a)
            q = plus(q, dirs[i]._a, -al[i]._a)
        scale = state["H_diag"]
        q *= scale._a if isinstance(scale, Tensor) else scale
        for i in range(len(dirs)):
            q = plus(q, steps[i]._a, al[i]._a - dot(dirs[i]._a, q) * ro[i]._a)
        return q

    def _search(
        self, closure: Any, here: Point, d: Any, t: float, small: float, left: int
    ) -> tuple[Point, int]:
        """The line search along d; the parameters are where they were afterwards."""
        params = self.param_groups[0]["params"]
        before = [p._a.copy() for p in params]

        def evaluate(t: Any) -> Point:
            self._add(d, float(t))
            f, g = self._evaluate(closure)
            for p, old in zip(params, before, strict=True):
                p._a[...] = old
                bump(p)
            return Point(t, f, g, slope(g, d))

        return strong_wolfe(evaluate, here, np.float64(t), largest(d), small, left)

    # ---- flat vectors ----------------------------------------------------------------------
    def _evaluate(self, closure: Any) -> tuple[Any, Any]:
        with enable_grad():
            loss = np.float64(float(closure()))
        return loss, self._gradient()

    def _gradient(self) -> Any:
        """All gradients as one vector, complex ones as pairs; zeros where there is none."""
        params = self.param_groups[0]["params"]
        xp = ARRAY_MODULES[type(params[0]._a)]
        parts = [xp.zeros_like(p._a) if p.grad is None else p.grad._a for p in params]
        return xp.concatenate([reals(part).reshape(-1) for part in parts])

    def _add(self, d: Any, t: float) -> None:
        """Add t * d to the parameters."""
        start = 0
        for p in self.param_groups[0]["params"]:
            a = reals(p._a)
            a += d[start : start + a.size].reshape(a.shape) * t
            start += a.size
            bump(p)


def dot(x: Any, y: Any) -> Any:
    """The product of two vectors, a 0-d array."""
    return ARRAY_MODULES[type(x)].asarray(x.dot(y))


def slope(g: Any, d: Any) -> Any:
    """The slope along the direction d, read, in the precision of the gradient."""
    return g.dtype.type(float(dot(g, d)))


def plus(x: Any, y: Any, weight: Any) -> Any:
    """x + weight * y as one product of matrices, which BLAS mostly rounds once: the terms nearly
    cancel after a wild step, and what is left of them is the direction.
    """
    xp = ARRAY_MODULES[type(x)]
    return xp.dot(xp.stack((xp.ones_like(weight), weight)), xp.stack((x, y)))


def largest(x: Any) -> float:
    """The largest absolute component, read."""
    return float(backend.to_host(abs(x).max()))
