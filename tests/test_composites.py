"""Functions written over table ops: what they refuse, and what they return unchanged."""

import pytest

import gradhook

CALLS = {
    "positive": gradhook.positive,
    "fft": gradhook.fft.fft,
    "irfft": gradhook.fft.irfft,
    "fftn": gradhook.fft.fftn,
    "fftshift": gradhook.fft.fftshift,
    "ravel": gradhook.ravel,
    "flatten": gradhook.flatten,
    "trace": gradhook.trace,
    "diag_embed": gradhook.diag_embed,
    "trapezoid": gradhook.trapezoid,
    "outer": lambda x: gradhook.outer(x, gradhook.ones(2)),
    "lerp": lambda x: gradhook.lerp(x, gradhook.ones(2), 0.5),
    "prelu": lambda x: gradhook.nn.functional.prelu(x, gradhook.ones(1)),
}


@pytest.mark.parametrize("bad", [[1.0], "text", 2.0], ids=["list", "str", "float"])
@pytest.mark.parametrize("name", CALLS)
def test_a_composite_names_an_argument_that_is_no_tensor(name, bad):
    with pytest.raises(
        TypeError, match=rf"{name}\(\): argument .* Tensor.* not {type(bad).__name__}"
    ):
        CALLS[name](bad)


def test_a_composite_names_the_argument_and_its_position():
    with pytest.raises(TypeError, match=r"prelu\(\): argument 'weight' \(position 2\) must be Ten"):
        gradhook.nn.functional.prelu(gradhook.ones(3), [0.1])


@pytest.mark.parametrize("kind", [gradhook.float32, gradhook.int64, gradhook.complex64])
def test_positive_is_the_tensor_itself(kind):
    x = gradhook.ones(3, dtype=kind)
    assert +x is x
    assert gradhook.positive(x) is x
    assert x.positive() is x


def test_positive_refuses_bools():
    for call in (gradhook.positive, lambda x: +x):
        with pytest.raises(RuntimeError, match=r"The `\+` operator, on a bool tensor"):
            call(gradhook.tensor([True]))
