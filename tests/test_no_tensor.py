"""What a public function says of an argument that must be a Tensor and is none."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradhook as gh
import gradhook.nn.functional as F
from gradhook import functions
from gradhook.overloads.arguments import tensors_only
from gradhook.tensor import Tensor

MODULES = {
    "": functions, "fft": gh.fft, "linalg": gh.linalg, "masked": gh.masked,
    "nn.functional": F, "special": gh.special,
}  # fmt: skip
TENSORS = ("Tensor", "Tensor | None")


NAMES = {
    **{namespace: module.__all__ for namespace, module in MODULES.items()},
    "nn.init": [n for n in dir(gh.nn.init) if n.endswith("_") and n[0] != "_"],
    "nn.utils.rnn": gh.nn.utils.rnn.__all__,
}
MODULES |= {"nn.init": gh.nn.init, "nn.utils.rnn": gh.nn.utils.rnn}


def annotated() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Path, function and parameter of every argument that is annotated as a Tensor."""
    for namespace, module in MODULES.items():
        for name in NAMES[namespace]:
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            for p in inspect.signature(function).parameters.values():
                if p.annotation in TENSORS and p.kind is not p.VAR_POSITIONAL:
                    yield f"{namespace}.{name}".lstrip("."), function, p.name


def methods() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """The same of the methods of a Tensor, self left out."""
    for name in dir(Tensor):
        function = getattr(Tensor, name)
        if inspect.isfunction(function) and not name.startswith("_"):
            for p in list(inspect.signature(function).parameters.values())[1:]:
                if p.annotation in TENSORS:
                    yield f"Tensor.{name}", function, p.name


CASES = [*annotated(), *methods()]
FIRST = sorted({(path, found) for path, function, found in annotated()
                if found == next(iter(inspect.signature(function).parameters))})  # fmt: skip


def given(function: Callable[..., Any], bad: str, value: Any) -> dict[str, Any]:
    """Arguments by name: value for the bad one, Tensors and ones for what has no default."""
    found = {}
    for p in inspect.signature(function).parameters.values():
        if p.name == bad:
            found[p.name] = value
        elif p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.default is p.empty:
            tensor = p.annotation in TENSORS or p.name in ("self", "input", "other")
            found[p.name] = gh.ones(2, 3) if tensor else 1
    return found


def refused(path: str, function: Callable[..., Any], bad: str, value: Any) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**given(function, bad, value))
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize(("path", "function", "bad"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_what_is_no_tensor_is_refused_in_words_that_name_no_private_thing(path, function, bad):
    for value in ([1.0, 2.0], {}, 3.0, np.ones(3)):
        error = refused(path, function, bad, value)
        assert not isinstance(error, AttributeError), error
        for private in ("'_a'", "has no attribute", "unsupported operand"):
            assert private not in str(error)


@pytest.mark.parametrize(("path", "bad"), FIRST, ids=[f[0] for f in FIRST])
def test_a_list_as_the_first_tensor_is_named_with_its_place_and_the_way_out(path, bad):
    namespace, _, name = path.rpartition(".")
    error = refused(path, getattr(MODULES[namespace], name), bad, [1.0, 2.0])
    if path in ("is_nonzero", "resolve_conj", "resolve_neg"):  # look at nothing a list lacks
        return
    if isinstance(error, RuntimeError):  # something else is wrong with the call
        return
    assert type(error) is TypeError, repr(error)
    assert f"argument '{bad}' (position 1) must be Tensor, not list; make one with" in str(error)


def test_the_text_names_the_argument_its_place_and_the_way_to_make_a_tensor():
    x, array = gh.ones(2, 3), np.ones((2, 3))
    text = r"cross_entropy\(\): argument 'target' \(position 2\) must be Tensor, not list; make "
    with pytest.raises(TypeError, match=text + r"one with gradhook\.tensor\(\.\.\.\)"):
        F.cross_entropy(x, [0, 1])
    with pytest.raises(TypeError, match=r"'input' \(position 1\).*ndarray.*from_numpy\(\.\.\.\)"):
        F.softmax(array, 1)
    with pytest.raises(TypeError, match=r"chunk\(\): argument 'input' .* must be Tensor, not None"):
        gh.chunk(None, 2)
    with pytest.raises(TypeError, match=r"batch_norm\(\): argument 'running_mean' \(position 2\)"):
        F.batch_norm(x, [1.0], gh.ones(3), training=False)


def test_a_method_counts_its_arguments_from_behind_self():
    with pytest.raises(TypeError, match=r"put\(\): argument 'index' \(position 1\) must be Tensor"):
        gh.ones(3).put([0], gh.ones(1))


def test_an_element_of_a_list_of_tensors_is_named_with_its_number():
    for call in (gh.column_stack, gh.cat, gh.broadcast_tensors, gh.atleast_2d, gh.meshgrid):
        with pytest.raises(TypeError, match=r"argument 'tensors\[1\]' \(position 1\) must be Tens"):
            call([gh.ones(2), [1.0]])
    with pytest.raises(TypeError, match=r"pack_sequence\(\): argument 'sequences\[1\]' "):
        gh.nn.utils.rnn.pack_sequence([gh.ones(2), [1.0]])
    with pytest.raises(TypeError, match=r"argument 'tensors' \(position 2\) must be Tensor"):
        gh.block_diag(gh.ones(2), [1.0])


def test_an_out_function_says_it_too():
    with pytest.raises(TypeError, match=r"take\(\): argument 'index' \(position 2\)"):
        gh.take(gh.ones(3), [0])
    with pytest.raises(TypeError, match=r"take\(\): argument 'index' \(position 2\)"):
        gh.take(gh.ones(3), [0], out=gh.empty(1))


def test_an_error_of_a_callback_stays_its_own():
    x = gh.ones(2, 3)
    for error in (AttributeError("mine"), TypeError("mine")):

        def distance(a: Any, b: Any, error: Exception = error) -> Any:
            raise error

        with pytest.raises(type(error), match="mine"):
            F.triplet_margin_with_distance_loss(x, x, x, distance_function=distance)


def test_only_an_error_about_an_argument_that_is_no_tensor_is_reworded():
    def own(x: Tensor, y: Any, callback: Any) -> Any:
        callback(x)
        return x.ndim + y.ndim

    def failing(x: Any) -> None:
        raise TypeError("mine")

    checked = tensors_only(own, "own")
    for x in (gh.ones(2), np.ones(2)):
        with pytest.raises(AttributeError, match="'str' object has no attribute 'ndim'"):
            checked(x, "text", id)
    with pytest.raises(TypeError, match="mine"):
        checked([1.0], "text", failing)
    with pytest.raises(TypeError, match=r"^own\(\): argument 'x' \(position 1\) must be Tensor"):
        checked([1.0], "text", id)


FOUND = (
    F.softmax, F.cross_entropy, gh.chunk, gh.softmax, gh.linalg.cross, gh.special.softmax,
    gh.zeros_like, gh.split_copy, gh.conv2d, gh.masked.sum, gh.Tensor.put,
)  # fmt: skip


@pytest.mark.parametrize("function", FOUND, ids=lambda f: f.__qualname__)
def test_a_public_function_pickles_and_shows_its_signature_and_words(function):
    assert pickle.loads(pickle.dumps(function)) is function
    assert "Source:" in function.__doc__
    assert len(inspect.signature(function).parameters) > 1
    assert inspect.getsource(function)


def test_the_signature_and_source_shown_are_those_written_by_hand():
    shown = inspect.signature(F.cross_entropy)
    assert shown.parameters["target"].annotation == "Tensor"
    assert shown.parameters["reduction"].default == "mean"
    assert "def cross_entropy(" in inspect.getsource(F.cross_entropy)
    assert F.cross_entropy.__module__ == "gradhook.nn.functional"


def test_a_warning_points_at_the_line_that_called():
    x = gh.ones(1, 1, 4, 4)
    grid = gh.zeros(1, 2, 2, 2)
    calls = (
        lambda: F.upsample(x, 2),
        lambda: F.softmax(x),
        lambda: gh.nn.Softmax()(x),
        lambda: F.grid_sample(x, grid),
        lambda: F.mse_loss(x, gh.ones(1, 1, 4, 1)),
        lambda: F.l1_loss(x, x, size_average=True),
        lambda: F.gumbel_softmax(x, eps=1.0),
    )
    for call in calls:
        with pytest.warns(UserWarning) as found:
            call()
        assert {w.filename for w in found} == {__file__}
