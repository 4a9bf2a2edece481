"""Random numbers with a distribution's parameters: normal, bernoulli, multinomial, poisson, and
the in-place methods that fill a tensor.

A draw has no gradient: what it is drawn from (or written into) gets zeros. Numbers are drawn on
the tensor's device, by `generator` or the default one. Source: PyTorch's functions of these names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradhook import backend, creation, dtypes, random
from gradhook.ops.axes import broadcast
from gradhook.ops.table import TABLE
from gradhook.overloads.recorded import multi, ops, tensor_of, write
from gradhook.tensor import Tensor

RENAMED: dict[str, str] = {}
FUNCTIONS = ("normal", "bernoulli", "multinomial", "poisson")
METHODS = ("bernoulli", "multinomial")
PROPERTIES: tuple[str, ...] = ()

Given = random.Generator | None
MOST_CATEGORIES = 2**24


def _uniform(like: Tensor, shape: tuple[int, ...], generator: Given) -> Tensor:
    """Uniform numbers in [0, 1), float64 beside float64, else float32."""
    wide = "f8" if like._a.dtype.itemsize > 4 else "f4"
    return tensor_of((generator or random.default_generator).random(shape, wide, like=like._a))


def _normal(like: Tensor, shape: tuple[int, ...], generator: Given) -> Tensor:
    source = generator or random.default_generator
    return tensor_of(source.normal(shape, like._a.dtype, like=like._a))


def _refuse(x: Tensor, name: str, kinds: str = "f") -> None:
    if x._a.dtype.kind not in kinds:
        raise NotImplementedError(
            f"{name} is not implemented for {x.dtype.title!r}; expected a floating dtype"
        )


def _on_host(x: Tensor) -> bool:
    """Whether a check of values costs no sync."""
    return x.device is backend.CPU


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Given = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers. mean, std: tensors that broadcast, or numbers; two numbers need `size`.

    Result: the broadcast shape in the dtype of mean (else std); dtype or the default one by size.
    Errors: RuntimeError for a negative std, NotImplementedError for integers.
    """
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError("normal(): mean and std are both numbers, so it needs size")
        shape = (size,) if isinstance(size, int) else tuple(size)
        drawn = creation.randn(shape, generator=generator, dtype=dtype, device=device)
        scaled = ops.add(ops.multiply(drawn, std), mean)
        return scaled.requires_grad_() if requires_grad else scaled
    like = mean if isinstance(mean, Tensor) else std
    _refuse(like, "normal", "fc")
    if isinstance(std, Tensor):
        _refuse(std, "normal")
        if _on_host(std) and bool((std._a < 0).any()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    start = ops.cast(ops.multiply(ops.add(mean, std), 0), dtype=like._a.dtype)
    drawn = _normal(like, tuple(start.shape), generator)
    values = ops.add(ops.multiply(drawn, _held(std)), _held(mean))
    return ops.copy(start, ops.cast(values, dtype=like._a.dtype))


def _held(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def bernoulli(input: Tensor, p: float | None = None, *, generator: Given = None) -> Tensor:
    """1 with the probability in input (or p), else 0. Result: shape and dtype of input.

    Errors: RuntimeError outside [0, 1], NotImplementedError for integer probabilities.
    """
    if p is not None:
        return ops.copy(input, _coin(input, p, generator))
    _refuse(input, "bernoulli")
    return ops.copy(input, _coin(input, input.detach(), generator))


def _coin(like: Tensor, p: Any, generator: Given) -> Tensor:
    """Whether a uniform number is below p. Result: shape of like, bool."""
    if isinstance(p, Tensor):
        _refuse(p, "bernoulli")
        if _on_host(p) and not bool(((p._a >= 0) & (p._a <= 1)).all()):
            raise RuntimeError("bernoulli expects every probability in [0, 1]")
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return ops.less(_uniform(like, tuple(like.shape), generator), p)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Given = None
) -> Tensor:
    """Indices drawn with the weights in each row, each once unless `replacement`.

    input: (n,) or (rows, n), floating, not negative, no row of zeros. Result: (num_samples,) or
    (rows, num_samples), int64. Errors: RuntimeError for other weights, shapes and counts; weights
    on a device are not looked at.
    """
    _check_weights(input, num_samples, replacement)
    weights = input.detach()
    if weights._a.dtype.itemsize == 2:
        weights = ops.cast(weights, dtype=dtypes.float32)
    if replacement:
        sums = ops.cumsum(weights, axis=-1)
        last = ops.slice_view(sums, index=(Ellipsis, slice(-1, None)))
        shape = (*input.shape[:-1], num_samples)
        drawn = ops.cast(_uniform(weights, shape, generator), dtype=weights._a.dtype)
        found = ops.searchsorted(sums, ops.multiply(drawn, last), right=True)
        # rounding may reach the whole sum: then the last category that has a weight
        return ops.minimum(found, ops.searchsorted(sums, last))
    waits = _exponential(_uniform(weights, tuple(weights.shape), generator), 1.0)
    rates = ops.divide(ops.cast(waits, dtype=weights._a.dtype), weights)
    rates = ops.masked_fill(rates, ops.equal(weights, 0), value=float("inf"))
    return multi.topk(rates, k=num_samples, axis=-1, largest=False)[1]


def _check_weights(x: Tensor, count: int, replacement: bool) -> None:
    if x._a.dtype.kind != "f":
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: " + x.dtype.title
        )
    if x.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, found {x.ndim}")
    if count <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, found {count}")
    if not replacement and count > x.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{count} of {x.shape[-1]}"
        )
    if x.shape[-1] > MOST_CATEGORIES:
        raise RuntimeError(f"number of categories cannot exceed 2^24, found {x.shape[-1]}")
    if _on_host(x):
        values = x._a
        if not bool(((values >= 0) & (values < float("inf"))).all()):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not bool((values.sum(-1) > 0).all()):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def poisson(input: Tensor, generator: Given = None) -> Tensor:
    """Poisson counts of the rates in input. Result: shape and dtype of input.

    Errors: RuntimeError for a negative rate (not looked at on a device), NotImplementedError for
    integers.
    """
    _refuse(input, "poisson")
    rates = input._a
    if _on_host(input) and bool((rates < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    counts = (generator or random.default_generator).poisson(rates)
    return ops.copy(input, tensor_of(counts))


def _exponential(uniform: Tensor, rate: float) -> Tensor:
    """Exponential numbers from uniform ones, positive and finite."""
    tiny = 2.0**-53 if uniform._a.dtype.itemsize == 8 else 2.0**-24
    waits = ops.negative(ops.log1p(ops.negative(uniform)))
    return ops.multiply(ops.clip_low(waits, tiny), 1.0 / rate)


def _filled(self: Tensor, values: Tensor) -> Tensor:
    return write(TABLE["copy"], self, values)


def _range(low: Any, high: Any, names: dict[str, Any]) -> tuple[Any, Any]:
    """The limits, also given as from=, to=. Errors: TypeError for other names."""
    low, high = names.pop("from", low), names.pop("to", high)
    if names:
        raise TypeError(f"unexpected keyword argument {sorted(names)[0]!r}")
    return low, high


def uniform_(
    self: Tensor, low: float = 0, high: float = 1, *, generator: Given = None, **names: Any
) -> Tensor:
    """self filled with uniform numbers in [from, to), each part of a complex self.

    Errors: RuntimeError where from > to.
    """
    low, high = _range(low, high, names)
    _refuse(self, "uniform_", "fc")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
        )
    parts = (2,) if self.is_complex() else ()
    drawn = _uniform(self, (*self.shape, *parts), generator)
    values = ops.add(ops.multiply(drawn, high - low), low)
    return _filled(self, ops.view_as_complex(values) if parts else values)


def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Given = None) -> Tensor:
    """self filled with normal numbers. Errors: RuntimeError for a negative std."""
    _refuse(self, "normal_", "fc")
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    drawn = _normal(self, tuple(self.shape), generator)
    return _filled(self, ops.add(ops.multiply(drawn, std), mean))


def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Given = None
) -> Tensor:
    """self filled with exp of normal numbers. Errors: RuntimeError unless std is positive."""
    _refuse(self, "log_normal_")
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    drawn = _normal(self, tuple(self.shape), generator)
    return _filled(self, ops.exp(ops.add(ops.multiply(drawn, std), mean)))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Given = None) -> Tensor:
    """self filled with exponential numbers of a rate. Errors: RuntimeError unless it's positive."""
    if self._a.dtype.kind != "f":
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {self.dtype.title}"
        )
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _filled(self, _exponential(_uniform(self, tuple(self.shape), generator), lambd))


def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Given = None
) -> Tensor:
    """self filled with Cauchy numbers. Errors: RuntimeError unless sigma is positive."""
    if self._a.dtype.kind != "f":
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {self.dtype.title}"
        )
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    turned = ops.subtract(_uniform(self, tuple(self.shape), generator), 0.5)
    tangents = ops.tan(ops.multiply(turned, 3.141592653589793))
    return _filled(self, ops.add(ops.multiply(tangents, sigma), median))


def geometric_(self: Tensor, p: float, *, generator: Given = None) -> Tensor:
    """self filled with the number of the first success at probability p, from 1 on.

    Errors: RuntimeError unless 0 < p < 1.
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    waits = _exponential(_uniform(self, tuple(self.shape), generator), 1.0)
    counts = ops.clip_low(ops.ceil(ops.divide(waits, -math.log1p(-p))), 1)
    return _filled(self, counts)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Given = None) -> Tensor:
    """self filled with 1 with probability p (a number, or a tensor that broadcasts), else 0."""
    if isinstance(p, Tensor):
        broadcast(tuple(self.shape), tuple(p.shape))
    return _filled(self, _coin(self, _held(p), generator))


def random_(
    self: Tensor, low: int | None = None, high: int | None = None, *, generator: Given = None,
    **names: Any,
) -> Tensor:  # fmt: skip
    """self filled with integers in [from, to); random_(to) starts at 0, random_() takes all that
    the dtype holds exactly, from 0. Errors: RuntimeError unless from < to.
    """
    low, high = _range(low, high, names)
    if high is None:
        high = _limit(self) if low is None else low
        low = 0
    low = 0 if low is None else low
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    source = generator or random.default_generator
    drawn = source.integers(int(low), int(high), tuple(self.shape), like=self._a)
    return _filled(self, tensor_of(drawn))


def _limit(x: Tensor) -> int:
    """One above the largest number that random_() draws."""
    d = x._a.dtype
    if d.kind == "b":
        return 2
    if d.kind == "f":
        return int(2 ** {2: 11, 4: 24}.get(d.itemsize, 53)) + 1
    return int(min(2 ** (8 * d.itemsize - (d.kind == "i")), 2**63 - 1))


INPLACE: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        uniform_, normal_, log_normal_, exponential_, cauchy_, geometric_, bernoulli_, random_,
    )
}  # fmt: skip
