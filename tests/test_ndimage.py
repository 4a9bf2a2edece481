"""gradhook.ndimage: values are SciPy's, gradients are finite differences'."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

import gradhook
from gradhook import ndimage
from gradhook.autograd.gradcheck import gradcheck, gradgradcheck

MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
RNG = np.random.default_rng(0)
one_is_enough = pytest.mark.cpu_only(reason="each size and mode is a kernel to compile")


def leaf(*shape: int, dtype: str = "f8", seed: int = 0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype in ("c16", "c8"):
        values = values + 1j * rng.standard_normal(shape)
    return gradhook.tensor(values.astype(dtype), requires_grad=True)


def host(t) -> np.ndarray:
    return t.detach().cpu().numpy()


def agrees(name: str, *args, tolerance: float = 1e-12, **options) -> None:
    """gradhook's result is SciPy's for the same values."""
    found = getattr(ndimage, name)(*args, **options)
    given = [host(a) if isinstance(a, gradhook.Tensor) else a for a in args]
    if name in ORDERED:
        options.setdefault("order", 1)
    expected = getattr(scipy.ndimage, name)(*given, **options)
    assert tuple(found.shape) == expected.shape and found.dtype.np == expected.dtype
    np.testing.assert_allclose(host(found), expected, rtol=tolerance, atol=tolerance)


ORDERED = ("map_coordinates", "affine_transform", "shift", "zoom", "rotate")


@one_is_enough
@pytest.mark.parametrize("mode", [*MODES, "grid-mirror", "grid-constant", "grid-wrap"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (1, 5), (6, 2)])
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_weights_of_any_size_and_origin_give_scipys_values(name, shape, mode):
    x, w = leaf(5, 4), leaf(*shape, seed=1)
    agrees(name, x, w, mode=mode, cval=1.5)
    low = [-(n // 2) if name == "correlate" else -((n - 1) // 2) for n in shape]
    high = [(n - 1) // 2 if name == "correlate" else n // 2 for n in shape]
    for origin in (low, high):
        try:
            scipy.ndimage.correlate(host(x), host(w), origin=origin)
        except ValueError:
            continue  # SciPy refuses some ends of convolve, and we with it or not
        agrees(name, x, w, mode=mode, origin=origin)


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("dtypes", [("c16", "f8"), ("f8", "c16"), ("c16", "c16"), ("f4", "f4")])
def test_complex_weights_are_conjugated_by_correlate_alone(name, dtypes):
    x, w = leaf(5, 4, dtype=dtypes[0]), leaf(3, 2, dtype=dtypes[1], seed=1)
    agrees(name, x, w, tolerance=1e-12 if "f4" not in dtypes else 1e-5)
    agrees(name + "1d", x, w[0], axis=0, tolerance=1e-12 if "f4" not in dtypes else 1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_both_sides_have_gradients_of_both_orders(mode):
    x, w = leaf(3, 2), leaf(2, 2, seed=1)
    for name in ("correlate", "convolve"):

        def run(x, w, name=name):
            return getattr(ndimage, name)(x, w, mode=mode, cval=0.7)

        assert gradcheck(run, (x, w)) and gradgradcheck(run, (x, w))
    z, v = leaf(2, dtype="c16"), leaf(3, dtype="c16", seed=1)
    for name in ("correlate1d", "convolve1d"):

        def run1d(z, v, name=name):
            return getattr(ndimage, name)(z, v, mode=mode, cval=0.7)

        assert gradcheck(run1d, (z, v)) and gradgradcheck(run1d, (z, v))


@pytest.mark.parametrize("mode", MODES)
def test_the_gradient_is_the_transpose(mode):
    """<A x, y> == <x, A^T y>, for weights longer than the image, too."""
    for shape in ((3, 3), (9, 1), (4, 8)):
        x, w, y = leaf(4, 5), leaf(*shape, seed=1), leaf(4, 5, seed=2).detach()
        out = ndimage.correlate(x, w, mode=mode)
        (out * y).sum().backward()
        inner = float((host(out) * host(y)).sum())
        assert abs(inner - float((host(x) * host(x.grad)).sum())) < 1e-10
        assert abs(inner - float((host(w) * host(w.grad)).sum())) < 1e-10


def test_axes_choose_which_dimensions_are_filtered():
    x, w = leaf(3, 4, 5), leaf(2, 3, seed=1)
    agrees("correlate", x, w, axes=(0, 2))
    agrees("convolve", x, w, axes=(2, 0), origin=(1, 0), mode="wrap")
    agrees("gaussian_filter", x, 0.8, axes=(1,))
    agrees("uniform_filter", x, (2, 3), axes=(2, 1))
    agrees("laplace", x, axes=(0, 1))
    agrees("gaussian_laplace", x, 0.7, axes=(0, 1))


@one_is_enough
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_the_named_filters_give_scipys_values(mode, dtype):
    x = leaf(7, 5, dtype=dtype)
    options = {"mode": mode, "cval": 0.3, "tolerance": 1e-10 if dtype != "f4" else 1e-4}
    for name in ("prewitt", "sobel"):
        agrees(name, x, **options)
        agrees(name, x, axis=0, **options)
    for order in (0, 1, 2, 3):
        agrees("gaussian_filter1d", x, 1.3, axis=0, order=order, **options)
    agrees("gaussian_filter", x, 1.1, **options)
    agrees("gaussian_filter", x, (0.8, 0), order=(1, 0), truncate=2.0, **options)
    agrees("gaussian_filter", x, 2.0, radius=(1, 3), **options)
    agrees("uniform_filter", x, 3, **options)
    agrees("uniform_filter", x, (2, 4), origin=(0, -1), **options)
    agrees("uniform_filter1d", x, 4, axis=0, origin=1, **options)
    agrees("laplace", x, **options)
    agrees("gaussian_laplace", x, (1.0, 0.7), **options)
    if dtype != "c16":
        agrees("gaussian_gradient_magnitude", x, 1.0, **options)


def test_each_filter_gives_scipys_values_on_every_device():
    x = leaf(6, 5)
    for name in ("correlate", "convolve"):
        agrees(name, x, leaf(2, 3, seed=1), mode="mirror", origin=(0, -1))
    for name, args in NAMED:
        agrees(name, x, *args)
    agrees("gaussian_filter", x, 0.7, order=2, mode="constant", cval=0.5)


NAMED = [
    ("gaussian_filter", (0.5,)),
    ("gaussian_filter1d", (0.5,)),
    ("uniform_filter", (3,)),
    ("uniform_filter1d", (2,)),
    ("sobel", ()),
    ("prewitt", ()),
    ("laplace", ()),
    ("gaussian_laplace", (0.5,)),
    ("gaussian_gradient_magnitude", (0.5,)),
]


def test_a_mode_for_each_axis():
    x = leaf(6, 5)
    agrees("gaussian_filter", x, 1.0, mode=["wrap", "nearest"])
    agrees("sobel", x, mode=["constant", "mirror"])
    agrees("uniform_filter", x, 3, mode=["reflect", "wrap"])


@pytest.mark.parametrize(("name", "args"), NAMED)
def test_the_named_filters_have_gradients_of_both_orders(name, args):
    def run(x):
        return getattr(ndimage, name)(x, *args)

    x = leaf(3, 2)
    assert gradcheck(run, x) and gradgradcheck(run, x, atol=1e-4)


COORDINATES = RNG.uniform(-9, 12, (2, 7, 4))
INTERPOLATED = (*MODES, "grid-mirror", "grid-constant", "grid-wrap")


@pytest.mark.parametrize("mode", INTERPOLATED)
@pytest.mark.parametrize("order", [0, 1])
def test_interpolation_gives_scipys_values_far_outside_too(order, mode):
    c = gradhook.tensor(COORDINATES)
    for shape in ((5, 4), (1, 6), (2, 2)):
        x = leaf(*shape)
        agrees("map_coordinates", x, c, order=order, mode=mode, cval=0.4, tolerance=1e-9)
    whole = gradhook.tensor(np.floor(COORDINATES))
    agrees("map_coordinates", leaf(5, 4), whole, order=order, mode=mode, tolerance=1e-9)
    x = leaf(5, 4, 3)
    options = {"order": order, "mode": mode, "cval": -0.2, "tolerance": 1e-9}
    agrees("shift", x, (0.3, -1.7, 4.2), **options)
    agrees("shift", x, 0.6, **options)
    m = np.array([[0.9, 0.2, 0.1], [-0.3, 1.1, 0], [0.1, -0.2, 0.7]])
    agrees("affine_transform", x, m, **options)
    agrees("affine_transform", x, m, offset=(0.3, -0.4, 1), output_shape=(4, 6, 2), **options)
    agrees("affine_transform", x, np.hstack([m, [[0.3], [-0.4], [1]]]), **options)
    agrees("rotate", x, 33.0, **options)
    agrees("rotate", x, -71.0, axes=(0, 2), reshape=False, **options)


@pytest.mark.parametrize("order", [0, 1])
def test_zoom_gives_scipys_values(order):
    x = leaf(5, 4)
    for factor in (2, 0.6, (1.5, 2.5), 1):
        agrees("zoom", x, factor, order=order, mode="nearest", tolerance=1e-9)
        agrees("zoom", x, factor, order=order, mode="reflect", grid_mode=True, tolerance=1e-9)
    agrees("zoom", x, 2, order=order, tolerance=1e-9)


@pytest.mark.parametrize("dtype", ["f4", "c16", "c8"])
def test_interpolation_keeps_the_dtype(dtype):
    x = leaf(5, 4, dtype=dtype)
    agrees("map_coordinates", x, gradhook.tensor(COORDINATES), mode="wrap", tolerance=1e-5)


@pytest.mark.parametrize("mode", INTERPOLATED)
def test_interpolation_has_gradients_in_the_image_and_the_coordinates(mode):
    # places away from those where pieces meet
    c = gradhook.tensor(
        np.array([[0.3, 1.6, -1.3, 4.8], [1.4, 0.2, 2.7, -0.6]]), requires_grad=True
    )
    x = leaf(3, 4)

    def run(x, c):
        return ndimage.map_coordinates(x, c, mode=mode, cval=0.5)

    assert gradcheck(run, (x, c)) and gradgradcheck(run, (x, c))


def test_the_parameters_of_a_motion_have_gradients():
    x = leaf(4, 5)
    moved = gradhook.tensor([0.37, -0.43], dtype=gradhook.float64, requires_grad=True)
    angle = gradhook.tensor(17.0, dtype=gradhook.float64, requires_grad=True)
    m = gradhook.tensor([[0.9, 0.2], [-0.1, 1.1]], dtype=gradhook.float64, requires_grad=True)
    assert gradcheck(lambda x, s: ndimage.shift(x, s, mode="reflect"), (x, moved))
    assert gradcheck(lambda x, a: ndimage.rotate(x, a, reshape=False, mode="wrap"), (x, angle))
    assert gradcheck(
        lambda x, m, s: ndimage.affine_transform(x, m, s, mode="nearest"), (x, m, moved)
    )
    assert gradcheck(lambda x: ndimage.zoom(x, 1.4, mode="mirror"), x)
    assert gradcheck(lambda x: ndimage.rotate(x, 30, order=0), x)


def test_empty_images_and_results():
    for name, args in (("gaussian_filter", (1.0,)), ("sobel", ()), ("shift", (0.5,))):
        assert tuple(getattr(ndimage, name)(leaf(0, 3), *args).shape) == (0, 3)
    assert ndimage.map_coordinates(leaf(3), gradhook.zeros(1, 0)).shape == (0,)
    x, w = leaf(0, 3), leaf(2, 2)
    ndimage.correlate(x, w).sum().backward()
    assert tuple(x.grad.shape) == (0, 3) and not host(w.grad).any()


def test_integers_become_floating_and_16_bits_are_filtered_in_32():
    x = gradhook.arange(6)
    assert ndimage.uniform_filter(x, 3).dtype == gradhook.float32
    half = gradhook.ones(5, dtype=gradhook.float16, requires_grad=True)
    y = ndimage.gaussian_filter(half, 1.0)
    y.sum().backward()
    assert y.dtype == half.grad.dtype == gradhook.float16
    np.testing.assert_allclose(host(y), 1.0, rtol=2e-3)


def test_what_does_not_fit_is_an_error_in_words():
    x = leaf(4, 3)
    with pytest.raises(RuntimeError, match=r"weights of shape \(3,\), expected 2 dimensions"):
        ndimage.correlate(x, leaf(3))
    with pytest.raises(RuntimeError, match="without an empty one"):
        ndimage.convolve(x, leaf(0, 2))
    with pytest.raises(ValueError, match="found the mode 'edge'"):
        ndimage.gaussian_filter(x, 1.0, mode="edge")
    with pytest.raises(ValueError, match="center inside the weights"):
        ndimage.correlate(x, leaf(3, 3), origin=2)
    with pytest.raises(ValueError, match=r"found the axes \(0, 0\)"):
        ndimage.uniform_filter(x, 3, axes=(0, 0))
    with pytest.raises(RuntimeError, match="sigma has 3 values, expected 2"):
        ndimage.gaussian_filter(x, (1, 2, 3))
    with pytest.raises(NotImplementedError, match="found order=3"):
        ndimage.shift(x, 1.0, order=3)
    with pytest.raises(ValueError, match="found the mode 'edge'"):
        ndimage.shift(x, 1.0, mode="edge")
    with pytest.raises(RuntimeError, match=r"expected \(2, \.\.\.\)"):
        ndimage.map_coordinates(x, leaf(3, 2))
    with pytest.raises(RuntimeError, match=r"found a matrix of shape \(3,\)"):
        ndimage.affine_transform(x, [1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match=r"a shift of shape \(3,\), expected one number"):
        ndimage.shift(x, (1, 2, 3))
    with pytest.raises(RuntimeError, match=r"an offset of shape \(1,\)"):
        ndimage.affine_transform(x, np.eye(2), [1.0])
    with pytest.raises(ValueError, match="a number as angle where reshape=True"):
        ndimage.rotate(x, gradhook.tensor(3.0))
    with pytest.raises(TypeError, match="found list, expected a Tensor"):
        ndimage.sobel([1.0])


def test_constants_are_sent_to_a_device_once_and_nothing_comes_back(request):
    x = leaf(6, 5)
    if not x.is_cuda:
        pytest.skip("about a device: pytest --device cuda")

    def run():
        y = ndimage.gaussian_filter(x, 1.25) + ndimage.shift(x, (0.3, 1.7), mode="reflect")
        z = ndimage.rotate(y, 20.0, reshape=False)
        ndimage.affine_transform(z, [[0.9, 0.1], [0, 1]], 0.5, mode="grid-wrap").sum().backward()

    run()
    counters = request.getfixturevalue("device_counters")
    before = {k: counters()[k] for k in ("h2d", "d2h", "syncs")}
    run()
    assert {k: counters()[k] for k in before} == before
