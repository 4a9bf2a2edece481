"""A result that is written in place afterwards: backward refuses only where torch does."""

from __future__ import annotations

import pytest

import gradhook

torch = pytest.importorskip("torch", reason="differential tests need torch")

UNARY = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square sin cos tan asin acos atan sinh
    cosh tanh asinh atanh sigmoid relu abs neg reciprocal floor sign erf erfc lgamma digamma
    sinc logit prod std var mean amax amin""".split()
BINARY = """divide add sub mul pow hypot atan2 maximum minimum fmod logaddexp xlogy copysign
    matmul""".split()
DIM = "softmax log_softmax logsumexp cumsum cumprod".split()
FUNCTIONAL = """softplus logsigmoid gelu elu silu leaky_relu hardtanh mish""".split()
FORMS = {name: lambda lib, x, y, name=name: getattr(lib, name)(x) for name in UNARY}
FORMS |= {name: lambda lib, x, y, name=name: getattr(lib, name)(x, y) for name in BINARY}
FORMS |= {name: lambda lib, x, y, name=name: getattr(lib, name)(x, -1) for name in DIM}
FORMS |= {f: lambda lib, x, y, f=f: getattr(lib.nn.functional, f)(x) for f in FUNCTIONAL}
FORMS |= {
    "x / y": lambda lib, x, y: x / y,
    "2 / x": lambda lib, x, y: 2.0 / x,
    "x ** 2.5": lambda lib, x, y: x**2.5,
    "2 ** x": lambda lib, x, y: 2.0**x,
    "clamp": lambda lib, x, y: x.clamp(0.1, 0.6),
    "norm": lambda lib, x, y: x.norm(),
    "linear": lambda lib, x, y: lib.nn.functional.linear(x, y),
    "layer_norm": lambda lib, x, y: lib.nn.functional.layer_norm(x, (2,)),
}


def goes_through(lib, form):
    x, y = (
        lib.tensor(values, dtype=lib.float64, requires_grad=True)
        for values in ([[0.3, 0.5], [0.2, 0.7]], [[0.4, 0.6], [0.9, 0.8]])
    )
    result = form(lib, x, y)
    result.add_(1.0)
    try:
        result.sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return False
    return True


@pytest.mark.parametrize("name", FORMS)
def test_backward_refuses_a_written_result_only_where_torch_does(name):
    assert goes_through(gradhook, FORMS[name]) or not goes_through(torch, FORMS[name])
