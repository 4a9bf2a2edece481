"""The bilinear map."""

from __future__ import annotations

from gradhook.nn.recorded import ops as xp
from gradhook.tensor import Tensor


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y_o = input1 @ weight[o] @ input2 + bias_o.

    input1: (..., m), input2: (..., n), weight: (out, m, n), bias: (out,). Result: (..., out).
    Floating.
    Errors: RuntimeError for sizes that do not fit.
    """
    _check(input1, input2, weight, bias)
    out, m, n = weight._a.shape
    lead = tuple(input1._a.shape[:-1])
    matrix = xp.reshape(xp.transpose(weight, dim0=1, dim1=2), shape=(out * n, m))
    rows = xp.reshape(xp.linear(input1, matrix), shape=(*lead, out, n))
    result = xp.squeeze(xp.matmul(rows, xp.expand_dims(input2, axis=-1)), axis=-1)
    return result if bias is None else result + bias


def _check(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    one, two = input1._a.shape, input2._a.shape
    if len(one) != len(two):
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {len(one)} and {len(two)}"
        )
    for axis, (a, b) in enumerate(zip(one[:-1], two[:-1], strict=True)):
        if a != b:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {axis}: got {a} and {b}"
            )
    out, m, n = weight._a.shape
    for name, found, expected in (("input1", one[-1], m), ("input2", two[-1], n)):
        if found != expected:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {found} but expected "
                f"{expected}"
            )
    if bias is not None and bias._a.shape[0] != out:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias._a.shape[0]} but "
            f"expected {out}"
        )
