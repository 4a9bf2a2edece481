"""The parametrization of orthogonal and unitary matrices."""

from __future__ import annotations

from typing import Any

from gradhook import linalg as _linalg
from gradhook.creation import eye, randn, zeros_like
from gradhook.dtypes import finfo
from gradhook.functions import allclose, cat, geqrf, where
from gradhook.modes import no_grad
from gradhook.nn.module import Module
from gradhook.tensor import Tensor

linalg: Any = _linalg  # its functions are made from the table
MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    one = eye(q.shape[-1], dtype=q.dtype, device=q.device)
    near = 10.0 * q.shape[-2] * finfo(q.dtype).eps
    return bool(allclose(q.mH @ q, one, atol=near))


def _orthogonalized(a: Tensor) -> Tensor:
    """The Q of the QR decomposition, (..., n, k) with n >= k, whose R has a positive diagonal."""
    x, tau = geqrf(a)
    signs = x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    made: Tensor = linalg.householder_product(x, tau) * signs
    return made


class _Orthogonal(Module):
    """A matrix to a unitary one of the same shape.

    base: the unitary matrix that is turned, (..., n, n) for n the longer side; absent without
    trivialization.
    """

    base: Tensor | None

    def __init__(
        self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _unitary(self, x: Tensor) -> Tensor:
        """(..., n, k) with n >= k to orthogonal columns."""
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            a = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
            q: Tensor = linalg.householder_product(a, tau)
            # The diagonal holds signs, which are no parameters. PyTorch cuts it to whole numbers,
            # so that a weight decay, which takes -1 to -0.99, makes the matrix 0.
            return q * x.detach().diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        x = x.tril()
        if n != k:
            rest = x.new_zeros(*x.shape[:-1], n - k)
            x = cat([x, rest], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(skew)
        else:
            one = eye(n, dtype=skew.dtype, device=skew.device)
            q = linalg.solve(one - skew * 0.5, one + skew * 0.5)
        return q if n == k else q[..., :k]

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        q = self._unitary(X.mT if wide else X)
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if wide else q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if wide else Q
        if "base" not in self._buffers:
            x = self._reflections(q)
            return x.mT if wide else x
        n, k = q.shape[-2:]
        if n == k and _is_orthogonal(q):
            self.base = q.clone()
        else:
            if n != k:
                more = randn(*q.shape[:-1], n - k, dtype=q.dtype, device=q.device)
                q = cat([q, more], dim=-1)
            self.base = _orthogonalized(q)
        start = zeros_like(Q)  # -1 on the diagonal: it is the signs of "householder", and
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # the other maps take no heed of it
        return start

    def _reflections(self, q: Tensor) -> Tensor:
        """The reflections whose product is q, with their signs on the diagonal."""
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        a: Tensor
        a, tau = geqrf(q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        signs = diagonal.sign()
        diagonal.copy_(where(tau == 0, -signs, signs))  # LAPACK's tau is 0 where it turns nothing
        return a
