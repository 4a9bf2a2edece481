"""Every public operation has a docstring with shapes, dtypes, errors and its source.

Of an op of the table the last three are made from its entry; a function written by hand says them
itself, and its errors where it raises any.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

import gradhook
from gradhook import overloads
from gradhook.functions import Signature, table_functions
from gradhook.ops.documentation import documented
from gradhook.ops.table import TABLE

SHAPES = re.compile(
    r"(?i)\bshapes?\b|\([a-z0-9_*., /]*,[a-z0-9_*., /]*\)|0-d|1-d|2-d|\bdimensions?\b|\bdim\b|"
    r"\baxis\b|\baxes\b|\bview\b|broadcast|vectors?\b|matri|as (x|input|there|A|g)\b|one number|"
    r"number of|elements?\b|row|`size`|\bas (hann_window|conv2d|median|quantile)"
)
DTYPES = re.compile(
    r"(?i)dtypes?\b|floating|\breal\b|complex|int64|int32|\bbool\b|integer|float32|float64|uint8|"
    r"\bpromot"
)
ERRORS = re.compile(r"Errors?:|\w+Error\b|\berrors as\b|errors as there")
# What sets or asks something and computes no tensor.
NO_OPERATION = frozenset(
    """can_cast get_default_dtype get_rng_state initial_seed is_grad_enabled load manual_seed save
    is_inference_mode_enabled is_tensor promote_types result_type set_default_dtype set_printoptions
    set_rng_state get_num_threads set_num_threads finfo iinfo""".split()
)
PUBLIC = sorted(name for name, row in TABLE.items() if row.torch is not None)


def by_hand() -> list[pytest.param]:
    """(function) of each public one that is not made from a row, by its path."""
    found, seen = [], set()
    for path in ("", "nn.functional", "linalg", "fft", "special", "masked"):
        space = gradhook
        for part in filter(None, path.split(".")):
            space = getattr(space, part)
        for name in getattr(space, "__all__", dir(space)):
            function = getattr(space, name, None)
            if name.startswith("_") or name in NO_OPERATION or not inspect.isfunction(function):
                continue
            function = function.__globals__.get("F", function)  # the one under an out= wrapper
            if function.__code__.co_filename.startswith("<") or function in seen:
                continue
            seen.add(function)
            found.append(pytest.param(function, id=f"{path}.{name}".lstrip(".")))
    return found


BY_HAND = by_hand()


@pytest.mark.parametrize("name", PUBLIC)
def test_an_op_of_the_table_documents_shapes_dtypes_errors_and_source(name):
    text = documented(TABLE[name])
    assert SHAPES.search(TABLE[name].doc), f"{name}: say shapes, found {TABLE[name].doc!r}"
    for part in ("Gradient: ", "Dtypes: ", "Errors: ", "Source: "):
        assert part in text


@pytest.mark.parametrize("name", sorted(set(TABLE) - set(PUBLIC)))
def test_a_helper_of_formulas_documents_its_shapes(name):
    assert SHAPES.search(TABLE[name].doc), f"{name}: say shapes, found {TABLE[name].doc!r}"


def test_the_public_function_of_a_row_has_the_whole_text():
    for name in PUBLIC:
        signature = Signature(TABLE[name])
        function = table_functions(signature.namespace).get(signature.name)
        if function is not None and function.__name__ not in overloads.__all__:
            assert function.__doc__ == documented(TABLE[name])


@pytest.mark.parametrize("function", BY_HAND)
def test_a_function_by_hand_documents_shapes_dtypes_and_source(function):
    doc = function.__doc__ or ""
    assert SHAPES.search(doc), f"say shapes, found {doc!r}"
    assert DTYPES.search(doc) or re.search(r"as there|\bas \w+\dd\b|older name", doc), (
        f"say dtypes, found {doc!r}"
    )
    assert "Source:" in doc or function.__name__ == "from_cupy"


@pytest.mark.parametrize("function", BY_HAND)
def test_a_function_by_hand_that_raises_documents_its_errors(function):
    source = textwrap.dedent(inspect.getsource(function))
    if not source.startswith(("def ", "@")):
        return  # made by another function
    tree = ast.parse(source)
    raises = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    doc = function.__doc__ or ""
    assert not raises or ERRORS.search(doc), f"say errors, found {doc!r}"
