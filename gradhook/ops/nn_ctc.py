"""Connectionist temporal classification: log-sums over the paths of a trellis.

A trellis has `time` rows and, for each of a batch, `states`: the labels of the target with a blank
before, between and after them. Everything is vectorised over batch and states; only time is a loop.
Logarithms of 0 are UNREACHABLE, a finite number, so that no difference of two is NaN.
Source: A. Graves et al., "Connectionist Temporal Classification" (2006).
"""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import composite, op

Array = Any
UNREACHABLE = -1e30


def _jumps(xp: Any, labels: Array, blank: int) -> Array:
    """Whether a path may reach a state from two before it: (batch, states) bool."""
    found = labels != blank
    found[:, :2] = False
    found[:, 2:] &= labels[:, 2:] != labels[:, :-2]
    return found


def _scan(xp: Any, p: Array, jumps: Array) -> tuple[Array, Array]:
    """The log-sums of paths up to each place, with and without its own p, both (time, batch,
    states). p: log-probabilities of the states.
    """
    n, states = p.shape[1:]
    p = xp.maximum(p, p.dtype.type(UNREACHABLE))
    arrive = xp.full(p.shape, UNREACHABLE, p.dtype)
    arrive[0, :, :2] = 0
    total = xp.empty_like(p)
    total[0] = p[0] + arrive[0]
    closed = xp.where(jumps, 0, UNREACHABLE).astype(p.dtype)
    padded = xp.full((n, states + 2), UNREACHABLE, p.dtype)
    for t in range(1, len(p)):
        padded[:, 2:] = total[t - 1]
        near = xp.logaddexp(padded[:, 2:], padded[:, 1:-1])
        xp.logaddexp(near, padded[:, :-2] + closed, out=arrive[t])
        xp.add(arrive[t], p[t], out=total[t])
    return total, arrive


def _ends(xp: Any, total: Array, steps: Array, states: Array) -> Array:
    """The log-sum of whole paths, (batch,); UNREACHABLE where there is none."""
    rows, width = xp.arange(total.shape[1]), total.shape[2]
    time = xp.maximum(steps - 1, 0)
    last = total[time, rows, xp.minimum(states, width) - 1]
    before = total[time, rows, xp.clip(states - 2, 0, width - 1)]
    found = xp.where(states > 1, xp.logaddexp(last, before), last)
    found = xp.where(steps > 0, found, xp.where(states == 1, 0, UNREACHABLE))
    return xp.where(states > width, UNREACHABLE, found).astype(total.dtype, copy=False)


@op(
    torch=None,
    linear=True,
    x=lambda xp, g, steps, states: xp.path_reversed(g, steps, states),
    steps=None,
    states=None,
)
def path_reversed(xp: Any, x: Array, steps: Array, states: Array) -> Array:
    """x with the time and the states of each sequence in reverse; 0 outside of its length.

    x: (time, batch, states), any dtype; steps, states: (batch,) int64. Result: shape, dtype of x.
    It is its own transpose.
    """
    time, n, width = x.shape
    t = steps - 1 - xp.arange(time)[:, None]
    s = states[:, None] - 1 - xp.arange(width)
    valid = (t >= 0)[:, :, None] & (s >= 0)
    found = x[xp.maximum(t, 0)[:, :, None], xp.arange(n)[:, None], xp.clip(s, 0, width - 1)]
    return xp.where(valid, found, xp.zeros((), x.dtype))


@op(torch=None, labels=None, states=None)
def path_jumps(xp: Any, labels: Array, states: Array, *, blank: int, turned: bool) -> Array:
    """Where a path may not come from two states before, of labels in order or turned round.

    labels: (batch, states) int64. Result: shape of labels, bool.
    """
    if turned:
        once = xp.ones_like(states)
        labels = path_reversed(xp, labels[None] + 1, once, states)[0] - 1
    return ~_jumps(xp, labels, blank)


@op(
    torch=None,
    p=lambda xp, g, p, labels, steps, states, out, blank: xp.path_covariance(
        g, p, labels, steps, states, out, blank=blank
    ),
    labels=None,
    steps=None,
    states=None,
)
def path_occupancy(
    xp: Any,
    p: Array,
    labels: Array,
    steps: Array,
    states: Array,
    *,
    blank: int,
    zero_infinity: bool = False,
) -> Array:
    """The probability that a path of the target is at a place. p: (time, batch, states), floating.

    labels: (batch, states); steps, states: (batch,) int64. Result: shape of p; NaN where no path
    fits (0 with zero_infinity), 0 outside of a sequence.
    """
    total = _scan(xp, p, ~path_jumps(xp, labels, states, blank=blank, turned=False))[0]
    back = path_reversed(xp, p, steps, states)
    after = _scan(xp, back, ~path_jumps(xp, labels, states, blank=blank, turned=True))[1]
    after = path_reversed(xp, after, steps, states)
    time, width = xp.arange(p.shape[0])[:, None, None], xp.arange(p.shape[2])
    inside = (time < steps[:, None]) & (width < states[:, None])
    score = xp.where(inside, total + after, UNREACHABLE)
    top = score.max(axis=2, keepdims=True)
    share = xp.where(inside, xp.exp(score - top), 0)
    share = share / xp.where(top > UNREACHABLE, share.sum(axis=2, keepdims=True), 1)
    missing = 0.0 if zero_infinity else xp.nan
    fits = (_ends(xp, total, steps, states) > UNREACHABLE / 2)[:, None]
    found = xp.where(fits, share, xp.where(time < steps[:, None], missing, 0.0))
    return found.astype(p.dtype, copy=False)


def _shifted(xp: Any, x: Array, by: int, value: float) -> Array:
    return xp.pad_constant(x, pad=(by, 0), value=value)[..., : x.shape[-1]]


def _expected(xp: Any, p: Array, g: Array, closed: Array) -> Array:
    """The mean, over the paths to each place, of the sum of g on them, in table functions.

    p, g: (time, batch, states); closed: (batch, states) bool. Result: shape of p.
    """
    p = xp.clip_low(p, UNREACHABLE)
    steps, gains = xp.unbind(p, axis=0), xp.unbind(g, axis=0)
    first = xp.slice_view(steps[0], index=(..., slice(0, 2)))
    width = p.shape[2]
    total = xp.pad_constant(first, pad=(0, max(width - 2, 0)), value=UNREACHABLE)
    mean, means = gains[0], [gains[0]]
    for step, gain in zip(steps[1:], gains[1:], strict=True):
        near = _shifted(xp, total, 1, UNREACHABLE)
        far = xp.masked_fill(_shifted(xp, total, 2, UNREACHABLE), closed, value=UNREACHABLE)
        arrive = xp.logaddexp(xp.logaddexp(total, near), far)
        mean = (
            gain
            + xp.exp(total - arrive) * mean
            + xp.exp(near - arrive) * _shifted(xp, mean, 1, 0.0)
            + xp.exp(far - arrive) * _shifted(xp, mean, 2, 0.0)
        )
        total = step + arrive
        means.append(mean)
    return xp.stack(*means, axis=0)


@composite()
def path_covariance(
    xp: Any, g: Array, p: Array, labels: Array, steps: Array, states: Array, out: Array, *,
    blank: int,
) -> Array:  # fmt: skip
    """Gradient of path_occupancy: each place's covariance with the sum of g on the path.

    g, p, out: (time, batch, states). Result: that shape.
    """
    before = _expected(xp, p, g, xp.path_jumps(labels, states, blank=blank, turned=False))
    closed = xp.path_jumps(labels, states, blank=blank, turned=True)
    back, gains = (xp.path_reversed(x, steps, states) for x in (p, g))
    after = xp.path_reversed(_expected(xp, back, gains, closed) - gains, steps, states)
    whole = before + after
    return out * (whole - xp.sum(out * whole, axis=2, keepdims=True))


@composite()
def ctc_vjp(
    xp: Any, g: Array, x: Array, labels: Array, steps: Array, states: Array, *, blank: int,
    zero_infinity: bool,
) -> Array:  # fmt: skip
    """Gradient of ctc_losses: exp(x) - the labels' probabilities given the target, times g.

    Result: shape of x.
    """
    index = xp.broadcast_to(xp.expand_dims(labels, axis=0), shape=(x.shape[0], *labels.shape))
    share = xp.path_occupancy(
        xp.gather(x, index, axis=2), labels, steps, states, blank=blank,
        zero_infinity=zero_infinity,
    )  # fmt: skip
    given = xp.scatter_zeros(share, index, axis=2, shape=tuple(x.shape))
    mass = xp.sum(share, axis=2, keepdims=True)  # 1 within a sequence, 0 after it
    return (xp.exp(x) * mass - given) * xp.expand_dims(g, axis=-1)


@op(
    torch=None,
    node="CtcLossBackward0",
    x=lambda xp, g, x, labels, steps, states, blank, zero_infinity: xp.ctc_vjp(
        g, x, labels, steps, states, blank=blank, zero_infinity=zero_infinity
    ),
    labels=None,
    steps=None,
    states=None,
)
def ctc_losses(
    xp: Any,
    x: Array,
    labels: Array,
    steps: Array,
    states: Array,
    *,
    blank: int,
    zero_infinity: bool = False,
) -> Array:
    """-log of the probability of each target, over all its alignments.

    x: (time, batch, classes) log-probabilities; labels: (batch, states) with blanks between; steps,
    states: (batch,) int64, how much of x and labels counts. Result: (batch,); inf where no
    alignment fits (0 with zero_infinity). The gradient is that of x that stays normalised, as
    PyTorch's.
    """
    time, n = x.shape[:2]
    p = x[xp.arange(time)[:, None, None], xp.arange(n)[:, None], labels]
    total = _ends(xp, _scan(xp, p, _jumps(xp, labels, blank))[0], steps, states)
    missing = 0.0 if zero_infinity else xp.inf
    return xp.where(total > UNREACHABLE / 2, -total, missing).astype(x.dtype, copy=False)
