"""The pruning methods: which entries or channels of a tensor go."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from gradhook.creation import rand, rand_like, zeros_like
from gradhook.functions import kthvalue, norm, topk
from gradhook.nn.module import Module
from gradhook.nn.utils.pruning import BasePruningMethod
from gradhook.tensor import Tensor


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, Integral) and amount > tensor_size:  # type: ignore[operator]
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, Integral) else round(amount * tensor_size)


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The n-norm over all dimensions but one, (t.shape[dim],)."""
    made: Tensor = norm(t, p=n, dim=[d for d in range(t.ndim) if d != dim % t.ndim])
    return made


def _pruned_count(amount: Any, size: int) -> int:
    count = _compute_nparams_toprune(amount, size)
    _validate_pruning_amount(count, size)
    return count


class Identity(BasePruningMethod):
    """Prunes nothing: a mask of ones. Source: torch.nn.utils.prune.Identity."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        """As BasePruningMethod.apply."""
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes single entries, those for which _lowest is smallest."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _lowest(self, t: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must say what to prune first")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask with 0 for `amount` more entries. Errors: ValueError for more than t has."""
        count = _pruned_count(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            chosen = topk(self._lowest(t).reshape(-1), k=count, largest=False).indices
            mask.view(-1)[chosen] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes entries at random.

    amount: their number, or their share of those left as a float of [0, 1]. Errors: TypeError,
    ValueError for another amount. Source: torch.nn.utils.prune.RandomUnstructured.
    """

    def _lowest(self, t: Tensor) -> Tensor:
        return rand_like(t)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Any:  # type: ignore[override]
        """As BasePruningMethod.apply."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the entries of the smallest absolute value.

    amount: their number, or their share of those left as a float of [0, 1]. Errors: TypeError,
    ValueError for another amount. Source: torch.nn.utils.prune.L1Unstructured.
    """

    def _lowest(self, t: Tensor) -> Tensor:
        return abs(t.detach())

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> Any:
        """As BasePruningMethod.apply."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    """Prunes whole channels along `dim`; _kept says which of them stay."""

    PRUNING_TYPE = "structured"
    amount: float
    dim: int

    def _kept(self, t: Tensor, count: int) -> Tensor:
        """The index of the channels that stay when `count` of them go."""
        raise NotImplementedError(f"{type(self).__name__} must say what to keep")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask with 0 for `amount` more channels.

        Errors: ValueError for a vector and for more channels than t has; IndexError for a `dim`
        that t lacks.
        """
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        count = _pruned_count(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        at: list[Any] = [slice(None)] * t.ndim
        at[self.dim] = self._kept(t.detach(), count)
        mask = zeros_like(t)
        mask[tuple(at)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes channels along `dim` at random.

    amount: their number, or their share of those left as a float of [0, 1]. Errors: TypeError,
    ValueError for another amount. Source: torch.nn.utils.prune.RandomStructured.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _kept(self, t: Tensor, count: int) -> Tensor:
        drawn = rand(t.shape[self.dim], device=t.device)
        kept: Tensor = drawn > kthvalue(drawn, k=count).values
        return kept

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, dim: int = -1
    ) -> Any:
        """As BasePruningMethod.apply."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the channels along `dim` of the smallest n-norm.

    amount: their number, or their share of those left as a float of [0, 1]; n: as p of
    gradhook.norm. Errors: TypeError, ValueError for another amount. Source:
    torch.nn.utils.prune.LnStructured.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def _kept(self, t: Tensor, count: int) -> Tensor:
        norms = _compute_norm(t, self.n, self.dim)
        kept: Tensor = topk(norms, k=t.shape[self.dim] - count, largest=True).indices
        return kept

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> Any:
        """As BasePruningMethod.apply."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask has 0 for. Source: torch.nn.utils.prune.CustomFromMask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask times the given one. Errors: AssertionError for one of another shape."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """As BasePruningMethod.apply."""
        return super().apply(module, name, mask=mask)
