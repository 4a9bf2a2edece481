"""Integers and complex numbers are refused where PyTorch refuses them, with its class of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradhook

torch = pytest.importorskip("torch", reason="torch is the oracle; .ci/run installs it")

Row = Callable[[Any, Any, Callable[..., Any]], Any]
INTEGERS: dict[str, Row] = {
    "adaptive_avg_pool1d": lambda lib, F, x: F.adaptive_avg_pool1d(x(1, 2, 5), 2),
    "adaptive_avg_pool1d to 1": lambda lib, F, x: F.adaptive_avg_pool1d(x(1, 2, 5), 1),
    "adaptive_avg_pool2d": lambda lib, F, x: F.adaptive_avg_pool2d(x(1, 2, 4, 4), 2),
    "adaptive_avg_pool3d": lambda lib, F, x: F.adaptive_avg_pool3d(x(1, 2, 4, 4, 4), 2),
    "addcdiv": lambda lib, F, x: lib.addcdiv(x(3), x(3), x(3)),
    "addr": lambda lib, F, x: lib.addr(x(2, 3), x(2), x(3), beta=0.5),
    "batch_norm": lambda lib, F, x: F.batch_norm(x(2, 3), lib.zeros(3), lib.ones(3)),
    "batch_norm in training": lambda lib, F, x: F.batch_norm(x(2, 3), None, None, training=True),
    "cdist": lambda lib, F, x: lib.cdist(x(2, 3), x(2, 3)),
    "celu": lambda lib, F, x: F.celu(x(3)),
    "cosine_similarity": lambda lib, F, x: F.cosine_similarity(x(2, 3), x(2, 3)),
    "dist": lambda lib, F, x: lib.dist(x(3), x(3)),
    "dropout": lambda lib, F, x: F.dropout(x(3), 0.5),
    "glu": lambda lib, F, x: F.glu(x(4)),
    "hardshrink": lambda lib, F, x: F.hardshrink(x(3)),
    "hardsigmoid": lambda lib, F, x: F.hardsigmoid(x(3)),
    "hardswish": lambda lib, F, x: F.hardswish(x(3)),
    "huber_loss": lambda lib, F, x: F.huber_loss(x(3), x(3)),
    "instance_norm": lambda lib, F, x: F.instance_norm(x(1, 2, 3)),
    "interpolate linear": lambda lib, F, x: F.interpolate(x(1, 2, 3), 5, mode="linear"),
    "interpolate bilinear": lambda lib, F, x: F.interpolate(x(1, 2, 3, 3), 5, mode="bilinear"),
    "interpolate bicubic": lambda lib, F, x: F.interpolate(x(1, 2, 3, 3), 5, mode="bicubic"),
    "interpolate trilinear": lambda lib, F, x: F.interpolate(x(1, 1, 2, 2, 2), 3, mode="trilinear"),
    "interpolate area": lambda lib, F, x: F.interpolate(x(1, 2, 6), 4, mode="area"),
    "kl_div": lambda lib, F, x: F.kl_div(x(3), x(3)),
    "kl_div of a floating input": lambda lib, F, x: F.kl_div(lib.ones(3), x(3)),
    "mse_loss": lambda lib, F, x: F.mse_loss(x(3), x(3)),
    "mse_loss sum": lambda lib, F, x: F.mse_loss(x(3), x(3), reduction="sum"),
    "multi_margin_loss": lambda lib, F, x: F.multi_margin_loss(x(2, 3), lib.tensor([0, 1])),
    "multilabel_margin_loss": lambda lib, F, x: F.multilabel_margin_loss(
        x(3), lib.tensor([0, -1, -1])
    ),
    "nanmean": lambda lib, F, x: lib.nanmean(x(3)),
    "normalize": lambda lib, F, x: F.normalize(x(2, 3)),
    "rand_like": lambda lib, F, x: lib.rand_like(x(3)),
    "randn_like": lambda lib, F, x: lib.randn_like(x(3)),
    "rms_norm": lambda lib, F, x: F.rms_norm(x(2, 3), (3,)),
    "rrelu": lambda lib, F, x: F.rrelu(x(3), training=True),
    "silu": lambda lib, F, x: F.silu(x(3)),
    "smooth_l1_loss": lambda lib, F, x: F.smooth_l1_loss(x(3), x(3)),
    "softshrink": lambda lib, F, x: F.softshrink(x(3)),
    "upsample_bilinear": lambda lib, F, x: F.upsample_bilinear(x(1, 2, 3, 3), 5),
}
COMPLEX: dict[str, Row] = {
    **{
        name: INTEGERS[name]
        for name in (
            *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "batch_norm"),
            *("batch_norm in training", "cdist", "cosine_similarity", "hardshrink", "hardsigmoid"),
            *("hardswish", "huber_loss", "instance_norm", "interpolate area", "kl_div"),
            *("kl_div of a floating input", "mse_loss", "mse_loss sum", "multi_margin_loss"),
            *("multilabel_margin_loss", "rrelu", "smooth_l1_loss", "softshrink"),
        )
    },
    "alpha_dropout": lambda lib, F, x: F.alpha_dropout(x(3), 0.5, True),
    "feature_alpha_dropout": lambda lib, F, x: F.feature_alpha_dropout(x(2, 3), 0.5, True),
    "mse_loss of a floating input": lambda lib, F, x: F.mse_loss(lib.ones(3), x(3)),
    "linalg.pinv rtol": lambda lib, F, x: lib.linalg.pinv(lib.eye(2), rtol=x(1)),
    "linalg.pinv rcond": lambda lib, F, x: lib.linalg.pinv(lib.eye(2), x(1)),
    "linalg.matrix_rank atol": lambda lib, F, x: lib.linalg.matrix_rank(lib.eye(2), atol=x(1)),
}
CASES = [(n, "int64", row) for n, row in INTEGERS.items()]
CASES += [(n, "complex128", row) for n, row in COMPLEX.items()]


def error_of(lib: Any, dtype: str, row: Row) -> Exception | None:
    def x(*shape: int) -> Any:
        return lib.from_numpy((np.arange(np.prod(shape)) % 7 + 1).reshape(shape).astype(dtype))

    try:
        row(lib, lib.nn.functional, x)
    except Exception as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype", "row"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_a_dtype_that_pytorch_refuses_is_refused_with_its_class_of_error(name, dtype, row):
    theirs, ours = error_of(torch, dtype, row), error_of(gradhook, dtype, row)
    assert theirs is not None, "PyTorch takes it"
    assert isinstance(ours, type(theirs)) or (
        type(theirs) is NotImplementedError and isinstance(ours, RuntimeError)
    ), (theirs, ours)
    assert any(word in str(ours) for word in ("Long", "int64", "Complex", "complex", "integral"))


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "cosine_similarity"])
def test_an_integer_beside_a_float_is_promoted_as_in_pytorch(name):
    a, b = np.array([[1, 2, 3], [4, 5, 7]]), np.array([[1.0, 3, 2], [4, 4, 7]], "f4")
    for pair in ((a, b), (b, a)):
        found, expected = (
            getattr(lib.nn.functional, name)(*(lib.from_numpy(v) for v in pair))
            for lib in (gradhook, torch)
        )
        assert str(found.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_a_picture_of_uint8_is_resampled_and_rounded_within_one_of_pytorch(mode, align):
    picture = np.random.default_rng(0).integers(0, 256, (1, 3, 7, 9)).astype("u1")
    for size in ((3, 4), (12, 20), (7, 5)):
        found, expected = (
            lib.nn.functional.interpolate(
                lib.from_numpy(picture), size, mode=mode, align_corners=align
            )
            .numpy()
            .astype(int)
            for lib in (gradhook, torch)
        )
        assert abs(found - expected).max() <= 1
        assert (found == expected).mean() > 0.95


def test_the_mean_over_all_places_takes_complex_numbers_as_in_pytorch():
    x = np.arange(6.0).reshape(1, 2, 3) * (1 + 2j)
    found, expected = (
        lib.nn.functional.adaptive_avg_pool1d(lib.from_numpy(x), 1).numpy()
        for lib in (gradhook, torch)
    )
    np.testing.assert_allclose(found, expected)


WIDER: dict[str, Row] = {
    "nearest": lambda lib, F, x: F.interpolate(x(1, 2, 3), 5),
    "max_pool1d": lambda lib, F, x: F.max_pool1d(x(1, 2, 6), 2),
    "adaptive_max_pool2d": lambda lib, F, x: F.adaptive_max_pool2d(x(1, 2, 5, 5), 2),
    "fold": lambda lib, F, x: F.fold(x(1, 4, 4), (3, 3), 2),
    "unfold": lambda lib, F, x: F.unfold(x(1, 2, 3, 3), 2),
    "max_unpool1d": lambda lib, F, x: F.max_unpool1d(x(1, 2, 3), lib.tensor([[[0, 2, 4]] * 2]), 2),
}


@pytest.mark.parametrize("name", WIDER)
def test_integers_where_only_pytorchs_cpu_refuses_them_give_what_floats_give(name):
    def of(lib: Any, dtype: str) -> Any:
        def x(*shape: int) -> Any:
            return lib.from_numpy((np.arange(np.prod(shape)) * 5 % 11).reshape(shape).astype(dtype))

        return WIDER[name](lib, lib.nn.functional, x).numpy()

    found = of(gradhook, "int64")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, of(torch, "float64"))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_complex_numbers_are_resampled_part_by_part(mode):
    x = np.random.default_rng(0).normal(size=(2, 1, 2, 4, 5))

    def of(lib: Any, a: Any) -> Any:
        return lib.nn.functional.interpolate(lib.from_numpy(a), (7, 3), mode=mode).numpy()

    found = of(gradhook, x[0] + 1j * x[1])
    np.testing.assert_allclose(found, of(torch, x[0]) + 1j * of(torch, x[1]), atol=1e-12)
