"""Random numbers of complex dtype, and the methods that fill a tensor with random numbers."""

from __future__ import annotations

import pytest

import gradhook


def test_a_complex_uniform_number_is_uniform_in_both_parts():
    gradhook.manual_seed(0)
    z = gradhook.rand(2000, dtype=gradhook.complex64)
    for part in (z.real, z.imag):
        assert 0 <= part.min().item() and part.max().item() < 1
        assert abs(part.mean().item() - 0.5) < 0.05
    assert not gradhook.equal(z.real, z.imag)
    assert gradhook.rand_like(z, dtype=gradhook.complex128).dtype == gradhook.complex128


def test_uniform_and_normal_fill_the_tensor_and_end_its_history():
    gradhook.manual_seed(0)
    x = gradhook.ones(4000, requires_grad=True)
    y = x * 2
    assert y.uniform_(2, 4) is y
    assert 2 <= y.min().item() and y.max().item() < 4 and abs(y.mean().item() - 3) < 0.05
    z = x * 2
    z.normal_(5, 2)
    assert abs(z.mean().item() - 5) < 0.2 and abs(z.std().item() - 2) < 0.1
    (y.sum() + z.sum()).backward()
    assert not x.grad.any()


def test_a_view_and_a_generator_of_ones_own_are_filled_alike():
    base = gradhook.zeros(3, 2)
    base[1].uniform_(1, 2, generator=gradhook.Generator().manual_seed(3))
    again = gradhook.zeros(2).uniform_(1, 2, generator=gradhook.Generator().manual_seed(3))
    assert base[1].tolist() == again.tolist() and not base[0].any() and not base[2].any()


def test_what_cannot_be_filled_says_so():
    with pytest.raises(RuntimeError, match=r"found from=2 > to=1"):
        gradhook.zeros(2).uniform_(2, 1)
    with pytest.raises(RuntimeError, match=r"normal expects std >= 0.0, but found std -1"):
        gradhook.zeros(2).normal_(0, -1)
    with pytest.raises(RuntimeError, match=r"uniform_ is not implemented for 'Long'"):
        gradhook.zeros(2, dtype=gradhook.int64).uniform_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in"):
        gradhook.zeros(2, requires_grad=True).normal_()
