"""einsum and tensordot, as permutations and matrix products of two tensors at a time."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from gradhook.ops.axes import wrap
from gradhook.ops.table import composite


@cache
def parse(equation: str, ndims: tuple[int, ...]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; the dimensions under an ellipsis are "0", "1",
    ...

    Errors: RuntimeError when the equation does not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise RuntimeError(
            f"einsum(): {'more' if len(ndims) > len(terms) else 'fewer'} operands were provided "
            "than specified in "
            "the equation"
        )
    hidden = [n - len(t.replace("...", "")) for t, n in zip(terms, ndims, strict=True)]
    for k, (term, extra) in enumerate(zip(terms, hidden, strict=True)):
        if extra < 0 or (extra and "..." not in term):
            raise RuntimeError(
                "einsum(): the number of subscripts in the equation "
                f"({len(term.replace('...', ''))}) does not match "
                f"the number of dimensions ({ndims[k]}) for operand {k}"
            )
    most = max((h for t, h in zip(terms, hidden, strict=True) if "..." in t), default=0)
    labels = [_expand(t, most, h) for t, h in zip(terms, hidden, strict=True)]
    if arrow:
        result = _expand(right, most, most)
    else:
        letters = [c for term in labels for c in term if not c.isdigit()]
        result = [str(k) for k in range(most)] + sorted(
            c for c in set(letters) if letters.count(c) == 1
        )
    known = {c for term in labels for c in term}
    for c in result:
        if result.count(c) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {c} appears more than once in the output"
            )
        if c not in known:
            raise RuntimeError(
                f"einsum(): output subscript {c} does not appear in the equation for any input "
                "operand"
            )
    return labels, result


def _expand(term: str, most: int, hidden: int) -> list[str]:
    head, dots, tail = term.partition("...")
    for c in head + tail:
        if not c.isalpha():
            raise RuntimeError(
                f"einsum(): invalid subscript given in the equation string, found {c!r} in {term!r}"
            )
    return [*head, *([str(k) for k in range(most - hidden, most)] if dots else []), *tail]


def _diagonals(xp: Any, x: Any, labels: list[str]) -> tuple[Any, list[str]]:
    """x with repeated labels replaced by their diagonal."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand but the sizes don't match, "
                    f"{x.shape[second]} != {x.shape[first]}"
                )
            x = xp.diagonal(x, dim1=first, dim2=second)
            labels = [d for k, d in enumerate(labels) if k not in (first, second)] + [c]
    return x, labels


def _summed(xp: Any, x: Any, labels: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    axes = tuple(k for k, c in enumerate(labels) if c not in keep)
    if not axes:
        return x, labels
    return xp.sum(x, axis=axes), [c for c in labels if c in keep]


def _arranged(xp: Any, x: Any, labels: list[str], order: list[str]) -> Any:
    dims = tuple(labels.index(c) for c in order)
    return x if dims == tuple(range(len(dims))) else xp.permute_dims(x, dims=dims)


def _pair(
    xp: Any, a: Any, la: list[str], b: Any, lb: list[str], keep: set[str]
) -> tuple[Any, list[str]]:
    """The product of two operands, summed over what both have and nobody keeps."""
    size: dict[str, int] = {}
    for x, labels in ((a, la), (b, lb)):
        for c, n in zip(labels, x.shape, strict=True):
            if n != 1 and size.get(c, 1) not in (1, n):
                raise RuntimeError(
                    f"einsum(): operands do not broadcast with remapped shapes: subscript {c} has "
                    "sizes "
                    f"{size[c]} and {n}"
                )
            size[c] = max(n, size.get(c, 1)) if n else 0
    a, la = _summed(xp, a, la, keep | set(lb))
    b, lb = _summed(xp, b, lb, keep | set(la))
    batch = [c for c in la if c in lb and c in keep]
    inner = [c for c in la if c in lb and c not in keep]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]
    # of one label each, with neighbours in memory along them: BLAS takes them as they lie
    whole = len(rows) == len(inner) == len(columns) == 1
    whole = whole and la[-1] in rows + inner and lb[-1] in inner + columns
    a = _arranged(xp, a, la, batch + rows + inner)
    b = _arranged(xp, b, lb, batch + inner + columns)
    result = batch + rows + columns
    shape = tuple(size[c] for c in result)
    if not inner:
        a = xp.reshape(a, shape=(*a.shape, *(1,) * len(columns)))
        b = xp.reshape(b, shape=(*b.shape[: len(batch)], *(1,) * len(rows), *b.shape[len(batch) :]))
        return a * b, result
    a = xp.broadcast_to(a, shape=tuple(size[c] for c in batch + rows + inner))
    b = xp.broadcast_to(b, shape=tuple(size[c] for c in batch + inner + columns))
    if whole:
        return xp.matmul(a, b), result
    k = prod(size[c] for c in inner)
    n, m = prod(size[c] for c in rows), prod(size[c] for c in columns)
    lead = (prod(size[c] for c in batch),) if batch else ()
    product = xp.matmul(xp.reshape(a, shape=(*lead, n, k)), xp.reshape(b, shape=(*lead, k, m)))
    return xp.reshape(product, shape=shape), result


@composite()
def einsum(xp: Any, *operands: Any, equation: str) -> Any:
    """Sum of products by labelled dimensions (Einstein's convention), with ellipsis and repeated
    labels.

    operands: one dtype, dimensions as the equation says, labels of one size (or 1). Result: the
    labels after "->". Errors: RuntimeError when the equation does not fit. Source: torch.einsum.
    """
    labels, result = parse(equation, tuple([len(x.shape) for x in operands]))
    todo = [_diagonals(xp, x, c) for x, c in zip(operands, labels, strict=True)]
    x, have = todo[0]
    for k, (y, lb) in enumerate(todo[1:], start=2):
        later = {c for _, ls in todo[k:] for c in ls} | set(result)
        x, have = _pair(xp, x, have, y, lb, later)
    x, have = _summed(xp, x, have, set(result))
    x = _arranged(xp, x, have, result)
    return xp.clone(x) if x is operands[0] else x


@composite()
def tensordot(xp: Any, x: Any, y: Any, *, axes: Any) -> Any:
    """Sum of products over pairs of dimensions.

    axes: two lists of one length. Result: the remaining dimensions.

    Errors: RuntimeError when the paired dimensions differ.
    """
    first = [wrap(d, len(x.shape)) for d in axes[0]]
    second = [wrap(d, len(y.shape)) for d in axes[1]]
    for a, b in zip(first, second, strict=True):
        if x.shape[a] == 1 != y.shape[b]:
            y = xp.sum(y, axis=b, keepdims=True)
        elif y.shape[b] == 1 != x.shape[a]:
            x = xp.sum(x, axis=a, keepdims=True)
        elif x.shape[a] != y.shape[b]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {x.shape[a]} in dim {a} "
                "and second has "
                f"size {y.shape[b]} in dim {b}"
            )
    rows = [d for d in range(len(x.shape)) if d not in first]
    columns = [d for d in range(len(y.shape)) if d not in second]
    k = prod(x.shape[d] for d in first)
    n, m = tuple(x.shape[d] for d in rows), tuple(y.shape[d] for d in columns)
    a = xp.reshape(xp.permute_dims(x, dims=tuple(rows + first)), shape=(prod(n), k))
    b = xp.reshape(xp.permute_dims(y, dims=tuple(second + columns)), shape=(k, prod(m)))
    return xp.reshape(xp.matmul(a, b), shape=n + m)
