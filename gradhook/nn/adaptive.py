"""AdaptiveLogSoftmaxWithLoss: rare classes in clusters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from gradhook import creation
from gradhook.nn.container import ModuleList, Sequential
from gradhook.nn.linear import Linear
from gradhook.nn.module import Module
from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


class ASMoutput(NamedTuple):
    """output: each target's log-probability, (batch,) or (). loss: their negated mean."""

    output: Tensor
    loss: Tensor


def _checked(cutoffs: Sequence[int], n_classes: int) -> list[int]:
    found = list(cutoffs)
    if not found:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    if (
        found != sorted(set(found))
        or found[0] <= 0
        or found[-1] > n_classes - 1
        or any(int(c) != c for c in found)
    ):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            f"order, where each value is between 1 and n_classes-1, found {found} and {n_classes} "
            "classes"
        )
    return found


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax over many classes: frequent ones in `head`, rarer ones in the clusters of `tail`.

    cutoffs: the first class of each cluster; div_value: how much smaller each next cluster's
    projection is. Errors: ValueError for cutoffs. Source: E. Grave et al., "Efficient softmax
    approximation for GPUs" (2017); torch.nn.AdaptiveLogSoftmaxWithLoss.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*_checked(cutoffs, n_classes), n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **made),
                    Linear(hidden, size, bias=False, **made),
                )
            )

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in cast(Sequential, projection):
                cast(Linear, layer).reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        """input_: (batch, in_features) or (in_features,), floating; target_: (batch,) or () int64.

        Result: (output, loss). One number a cluster is read by the host, as the rows of each
        cluster are counted. Errors: RuntimeError for shapes and targets that are no class.
        """
        _check_shapes(input_, target_)
        if target_._a.ndim == 0:
            output, loss = self._of_batch(
                xp.expand_dims(input_, axis=0), xp.expand_dims(target_, axis=0)
            )
            return ASMoutput(output.squeeze(0), loss)
        return self._of_batch(input_, target_)

    def _of_batch(self, input: Tensor, target: Tensor) -> ASMoutput:
        batch = int(target._a.shape[0])
        bounds = creation.tensor([0, *self.cutoffs], device=target.device)
        above = target.unsqueeze(1) >= bounds
        cluster = xp.sum(above, axis=1) - 1  # -1: negative targets; n_clusters + 1: too large ones
        found = cluster.unsqueeze(1) == creation.arange(self.n_clusters + 1, device=target.device)
        counts = cast("list[int]", xp.sum(found, axis=0).tolist())
        if sum(counts) != batch:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(xp.amin(target).item())}, {int(xp.amax(target).item())}] were found. "
            )
        order = cluster.argsort(stable=True)
        parts, start = (
            [creation.zeros(counts[0], dtype=input.dtype, device=input.device)],
            counts[0],
        )
        for i, count in enumerate(counts[1:]):
            if not count:
                continue
            rows = order[start : start + count]
            start += count
            scores = self.tail[i](xp.index_select(input, rows, axis=0))
            place = (xp.index_select(target, rows, axis=0) - self.cutoffs[i]).unsqueeze(1)
            parts.append(xp.gather(xp.log_softmax(scores, axis=1), place, axis=1).squeeze(1))
        within = xp.index_select(xp.concat(*parts, axis=0), order.argsort(), axis=0)
        places = xp.where(cluster == 0, target, cluster + (self.shortlist_size - 1))
        head = xp.log_softmax(self.head(input), axis=1)
        output = within + xp.gather(head, places.unsqueeze(1), axis=1).squeeze(1)
        return ASMoutput(output, xp.mean(-output))

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes. input: (batch, in_features). Result: (batch,
        n_classes).
        """
        return self._all(input, xp.log_softmax(self.head(input), axis=1))

    def _all(self, input: Tensor, head: Tensor) -> Tensor:
        parts = [head[:, : self.shortlist_size]]
        for i, projection in enumerate(self.tail):
            scores = xp.log_softmax(projection(input), axis=1)
            parts.append(scores + head[:, self.shortlist_size + i].unsqueeze(1))
        return xp.concat(*parts, axis=1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row. input: (batch, in_features). Result: (batch,)
        int64.
        """
        return xp.argmax(self.log_prob(input), axis=1)


def _check_shapes(input: Tensor, target: Tensor) -> None:
    """Errors: RuntimeError, in PyTorch's words, where they do not fit each other."""
    dims = target._a.ndim
    if dims > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if dims == 1 and (input._a.ndim == 0 or input._a.shape[0] != target._a.shape[0]):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input._a.ndim != dims + 1:
        raise RuntimeError(
            f"{dims}D target tensor expects {dims + 1}D input tensors, but found inputs with size "
            f"{input.shape}"
        )


__all__ = ["AdaptiveLogSoftmaxWithLoss"]
