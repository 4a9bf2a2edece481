"""The loss of connectionist temporal classification: targets in all their forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradhook import backend
from gradhook.autograd.binding import make
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.nn.functional.loss import reduce_loss, reduction_of
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor

Lengths = Tensor | Sequence[int] | int


def _lengths(name: str, given: Lengths, batch: int, like: Any) -> tuple[Any, Any]:
    """Lengths on the host (None where they are on a device) and on the device of `like`, int64.

    Errors: RuntimeError for another count, dtype or negative ones.
    """
    found = given._a if isinstance(given, Tensor) else np.asarray(given)
    if found.dtype.kind not in "iu" and found.size:
        raise RuntimeError(f"{name} must be integral")
    if found.size != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    host = found.reshape(-1).astype("i8") if type(found) is np.ndarray else None
    if host is not None and host.size and host.min() < 0:
        raise RuntimeError(
            f"Expected {name} to have value at least 0, but got value {host.min()} (while checking "
            "arguments for ctc_loss)"
        )
    with backend.place(like):
        module = ARRAY_MODULES[type(like)]
        return host, module.asarray(found.reshape(-1)).astype("i8", copy=False)


def _widest(targets: Any, host: Any, batch: int, time: int) -> int:
    """The room for a target. Errors: RuntimeError where targets do not fit their lengths."""
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument "
            "#2 'targets' (while checking arguments for ctc_loss)"
        )
    size = int(targets.shape[-1])
    if targets.ndim == 2 and targets.shape[0] != batch:
        raise RuntimeError(
            f"Expected tensor to have size {batch} at dimension 0, but got size {targets.shape[0]} "
            "for argument #2 'targets' (while checking arguments for ctc_loss)"
        )
    if host is None:  # lengths on a device: no wait for them; longer targets than time fit nowhere
        return size if targets.ndim == 2 else min(size, time)
    longest = int(host.max()) if host.size else 0
    if targets.ndim == 2 and longest > size:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size {size} "
            "for argument #2 'targets' (while checking arguments for ctc_loss)"
        )
    if targets.ndim == 1 and int(host.sum()) != size:
        raise RuntimeError(
            f"Expected tensor to have size {int(host.sum())} at dimension 0, but got size {size} "
            "for argument #2 'targets' (while checking arguments for ctc_loss)"
        )
    return longest


def _labels(targets: Any, lengths: Any, room: int, blank: int) -> Any:
    """The states of each target, blanks between: (batch, 2 * room + 1) int64."""
    module, batch = ARRAY_MODULES[type(targets)], lengths.shape[0]
    places = module.arange(room)
    if targets.ndim == 1:
        starts = module.cumsum(lengths) - lengths
        at = module.minimum(starts[:, None] + places, max(targets.shape[0] - 1, 0))
        rows = targets[at] if targets.size else module.zeros((batch, room), "i8")
    else:
        rows = targets[:, :room]
    labels = module.full((batch, 2 * room + 1), blank, "i8")
    labels[:, 1::2] = module.where(places < lengths[:, None], rows, blank)
    return labels


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of targets, over all alignments with log_probs.

    log_probs: (time, batch, classes) or (time, classes), log-probabilities; targets: class indices,
    (batch, longest) or one after the other in one dimension; input_lengths, target_lengths: a
    Tensor or ints, one a sequence. reduction: "mean" (of losses over target lengths), "sum",
    "none": (batch,). zero_infinity: infinite losses, where a target does not fit, and their
    gradients become 0. Errors: RuntimeError for shapes and lengths (on the CPU),
    NotImplementedError for other dtypes. Source: torch.nn.functional.ctc_loss; here it can be
    differentiated twice.
    """
    reduction = reduction_of(None, None, reduction)
    a = log_probs._a
    if a.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {a.ndim}-dimensional tensor for argument #1 "
            "'log_probs' (while checking arguments for ctc_loss)"
        )
    if a.dtype.kind != "f" or a.dtype.itemsize < 4:
        raise NotImplementedError(f"ctc_loss is not implemented for {log_probs.dtype.title!r}")
    if a.size == 0:
        raise RuntimeError(f"log_probs tensor must not be empty, found {list(a.shape)}")
    x = log_probs if a.ndim == 3 else xp.expand_dims(log_probs, axis=1)
    time, batch, classes = (int(k) for k in x._a.shape)
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"blank must be in label range: found {blank}, classes 0 to {classes - 1}"
        )
    host_steps, steps = _lengths("input_lengths", input_lengths, batch, a)
    host_sizes, sizes = _lengths("target_lengths", target_lengths, batch, a)
    if host_steps is not None and host_steps.max() > time:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {time}, but got value "
            f"{host_steps.max()} (while checking arguments for ctc_loss)"
        )
    room = _widest(targets._a, host_sizes, batch, time)
    with backend.place(a):
        rows = targets.to(log_probs.device)._a.astype("i8", copy=False)
        labels = make(_labels(rows, sizes, room, blank))
        states = make(2 * sizes + 1)
    if type(rows) is np.ndarray and ((labels._a < 0) | (labels._a >= classes)).any():
        raise IndexError(f"targets must be classes from 0 to {classes - 1}")
    losses = xp.ctc_losses(
        x, labels, make(steps), states, blank=blank, zero_infinity=bool(zero_infinity)
    )
    if reduction == "mean":
        losses = losses / xp.cast(xp.clip_low(make(sizes), 1), dtype=a.dtype)
    elif reduction == "none" and x is not log_probs:
        losses = losses.squeeze(0)
    return reduce_loss(losses, reduction)
