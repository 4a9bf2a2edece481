"""Complex numbers: parts, conjugate, angle, and their construction."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import composite, op


@op(torch="conj(input)", aliases=("conj_physical",), linear=True, x=lambda xp, g: xp.conj(g))
def conj(xp: Any, x: Any) -> Any:
    """Complex conjugate; a real x is copied. x: any shape. Result: shape and dtype of x."""
    return xp.conj(x) if x.dtype.kind == "c" else x.copy()


@op(torch="real(input)", method=False, view=True, linear=True, x=lambda xp, g: g)
def real(xp: Any, x: Any) -> Any:
    """Real part, a view. x: any shape. Result: shape of x, real dtype."""
    return x.real


@op(torch="imag(input)", method=False, view=True, linear=True, x=lambda xp, g: g * 1j)
def imag(xp: Any, x: Any) -> Any:
    """Imaginary part, a view.

    x: any shape, complex. Result: shape of x, real dtype. Errors: RuntimeError for real.
    """
    if x.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return x.imag


@composite()
def angle_vjp(xp: Any, g: Any, x: Any) -> Any:
    """Gradient of angle: g * i x / |x|², 0 where x is 0 or real. Result: shape and dtype of x."""
    if not _is_complex(x):
        return xp.zeros_like(g)
    size = xp.real(x) * xp.real(x) + xp.imag(x) * xp.imag(x)
    return xp.masked_fill(g * (x / size) * 1j, x == 0, value=0)


def _is_complex(x: Any) -> bool:
    return "complex" in str(x.dtype)


@op(torch="angle(input)", promote="float", linear=True, x=lambda xp, g, x: xp.angle_vjp(g, x))
def angle(xp: Any, x: Any) -> Any:
    """Angle in radians; 0 or pi for real x. x: any shape. Result: shape of x, real floating."""
    if x.dtype.kind == "c":
        return xp.angle(x)
    return xp.where(xp.isnan(x), x, (x < 0) * x.dtype.type(3.141592653589793))


@op(
    torch="complex(real, imag)",
    method=False,
    promote="same",
    linear=True,
    re=lambda xp, g: xp.real(g),
    im=lambda xp, g: xp.imag(g),
    takes="f",
)
def complex(xp: Any, re: Any, im: Any) -> Any:
    """re + i im.

    re, im: floating, one dtype, shapes that broadcast. Result: broadcast shape, complex dtype.
    """
    result = xp.empty(xp.broadcast(re, im).shape, "c16" if re.dtype.itemsize == 8 else "c8")
    result.real = re
    result.imag = im
    return result


@composite(torch="polar(abs, angle)", method=False, takes="f")
def polar(xp: Any, size: Any, angle: Any) -> Any:
    """size * (cos(angle) + i sin(angle)).

    size, angle: floating, one dtype, broadcasting. Result: complex dtype.
    """
    return xp.complex(size * xp.cos(angle), size * xp.sin(angle))


@op(
    torch="view_as_real(input)",
    method=False,
    view=True,
    linear=True,
    x=lambda xp, g: xp.view_as_complex(xp.clone(g)),
)
def view_as_real(xp: Any, x: Any) -> Any:
    """Real and imaginary part in a last dimension of 2, a view.

    x: (...,) complex. Result: (..., 2) real.
    """
    if x.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return x.reshape(*x.shape, 1).view("f8" if x.dtype.itemsize == 16 else "f4")


@op(
    torch="view_as_complex(input)",
    method=False,
    view=True,
    linear=True,
    x=lambda xp, g: xp.view_as_real(g),
    takes="f",
)
def view_as_complex(xp: Any, x: Any) -> Any:
    """Pairs of the last dimension as complex numbers, a view.

    x: (..., 2) floating. Result: (...,) complex.

    Errors: RuntimeError when the last dimension is not 2 or not contiguous.
    """
    if x.ndim == 0 or x.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if x.strides[-1] != x.dtype.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return x.view("c16" if x.dtype.itemsize == 8 else "c8")[..., 0]
