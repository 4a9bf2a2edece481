"""Named results of functions that return several tensors, as torch.return_types."""

from __future__ import annotations

from typing import Any, NamedTuple


class max(NamedTuple):
    """Result of max(dim)."""

    values: Any
    indices: Any


class min(NamedTuple):
    """Result of min(dim)."""

    values: Any
    indices: Any


class sort(NamedTuple):
    """Result of sort."""

    values: Any
    indices: Any


class topk(NamedTuple):
    """Result of topk."""

    values: Any
    indices: Any


class kthvalue(NamedTuple):
    """Result of kthvalue."""

    values: Any
    indices: Any


class median(NamedTuple):
    """Result of median(dim)."""

    values: Any
    indices: Any


class cummax(NamedTuple):
    """Result of cummax."""

    values: Any
    indices: Any


class cummin(NamedTuple):
    """Result of cummin."""

    values: Any
    indices: Any


class aminmax(NamedTuple):
    """Result of aminmax."""

    min: Any
    max: Any


class svd(NamedTuple):
    """Result of svd."""

    U: Any
    S: Any
    V: Any


class qr(NamedTuple):
    """Result of qr."""

    Q: Any
    R: Any


class slogdet(NamedTuple):
    """Result of slogdet."""

    sign: Any
    logabsdet: Any


class triangular_solve(NamedTuple):
    """Result of triangular_solve."""

    solution: Any
    cloned_coefficient: Any


class geqrf(NamedTuple):
    """Result of geqrf."""

    a: Any
    tau: Any


class lu_unpack(NamedTuple):
    """Result of lu_unpack."""

    P: Any
    L: Any
    U: Any


class linalg_eig(NamedTuple):
    """Result of linalg.eig."""

    eigenvalues: Any
    eigenvectors: Any


class linalg_eigh(NamedTuple):
    """Result of linalg.eigh."""

    eigenvalues: Any
    eigenvectors: Any


class linalg_svd(NamedTuple):
    """Result of linalg.svd."""

    U: Any
    S: Any
    Vh: Any


class linalg_qr(NamedTuple):
    """Result of linalg.qr."""

    Q: Any
    R: Any


class linalg_slogdet(NamedTuple):
    """Result of linalg.slogdet."""

    sign: Any
    logabsdet: Any


class linalg_lstsq(NamedTuple):
    """Result of linalg.lstsq."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class linalg_ldl_factor(NamedTuple):
    """Result of linalg.ldl_factor."""

    LD: Any
    pivots: Any


class linalg_ldl_factor_ex(NamedTuple):
    """Result of linalg.ldl_factor_ex."""

    LD: Any
    pivots: Any
    info: Any


class linalg_lu(NamedTuple):
    """Result of linalg.lu."""

    P: Any
    L: Any
    U: Any


class linalg_lu_factor(NamedTuple):
    """Result of linalg.lu_factor."""

    LU: Any
    pivots: Any


class linalg_lu_factor_ex(NamedTuple):
    """Result of linalg.lu_factor_ex."""

    LU: Any
    pivots: Any
    info: Any


class linalg_inv_ex(NamedTuple):
    """Result of linalg.inv_ex."""

    inverse: Any
    info: Any


class linalg_solve_ex(NamedTuple):
    """Result of linalg.solve_ex."""

    result: Any
    info: Any


class linalg_cholesky_ex(NamedTuple):
    """Result of linalg.cholesky_ex."""

    L: Any
    info: Any


class mode(NamedTuple):
    """Result of mode."""

    values: Any
    indices: Any


class frexp(NamedTuple):
    """Result of frexp."""

    mantissa: Any
    exponent: Any
