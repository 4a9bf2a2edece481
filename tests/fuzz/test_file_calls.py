"""Every function that a file of weights may call, with arguments of every kind: a result or one
clear error.
"""

from __future__ import annotations

import io
import pickle
import random
import zipfile

import pytest

import gradhook
from gradhook.serialization import LoadError

P2 = b"\x80\x02"


def opcodes(value):
    return pickle.dumps(value, 2)[2:-1]


def call(function, *args):
    return function + b"(" + b"".join(args) + b"tR"


def name(text):
    return b"c" + text.replace(" ", "\n").encode() + b"\n"


V2 = name("torch._utils _rebuild_tensor_v2")
STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
PLACE = (STORAGE, b"K\0", b"K\4\x85", b"K\1\x85", b"\x89", b"}")
TENSOR = call(V2, *PLACE)
BYTES = call(name("_codecs encode"), opcodes("\1" * 16), opcodes("latin1"))
DTYPE = call(name("numpy dtype"), opcodes("f4"))
EMPTY = call(
    name("numpy._core.multiarray _reconstruct"),
    *(name("numpy ndarray"), opcodes((0,)), call(name("_codecs encode"), opcodes("b"))),
)
ARRAY = call(name("numpy._core.numeric _frombuffer"), BYTES, DTYPE, opcodes((4,)), opcodes("C"))
DEVICE = call(name("torch device"), opcodes("cpu"))
LAZY = call(name("torch.nn.parameter UninitializedParameter"), b"\x88")
VALUES = [
    *(TENSOR, STORAGE, EMPTY, ARRAY, BYTES, DTYPE, DEVICE, LAZY, V2),
    *(opcodes(v) for v in (None, True, 3, -1, 2.5, "f4", "", (), (0,), (1, 2), [], [1], {}, {1})),
    *(opcodes(v) for v in ({"conj": True}, {"a": 1}, [(1, 2)], ("storage", 1, 2, 3, 4), 1j)),
    *(name(f"torch {n}") for n in ("Size", "float32", "FloatStorage", "Tensor", "device")),
    *(name(n) for n in ("numpy ndarray", "numpy dtype", "builtins list", "builtins set")),
    *(call(name("collections OrderedDict")), call(name("builtins range"), b"K\0", b"K\3")),
]
VALID = {
    V2: (*PLACE, opcodes({"neg": True})),
    name("torch._utils _rebuild_tensor"): PLACE[:4],
    name("torch._utils _rebuild_tensor_v3"): (*PLACE, name("torch float32"), b"}"),
    name("torch._utils _rebuild_parameter"): (TENSOR, b"\x88", b"}"),
    name("torch._utils _rebuild_parameter_with_state"): (TENSOR, b"\x88", b"}", opcodes({"a": 1})),
    name("torch._tensor _rebuild_from_type_v2"): (
        *(V2, name("torch Tensor"), b"(" + b"".join(PLACE) + b"t", opcodes({"a": 1})),
    ),
    name("torch.nn.parameter Parameter"): (TENSOR, b"\x88"),
    name("torch.nn.parameter UninitializedParameter"): (b"\x88", DEVICE, name("torch float32")),
    name("torch.nn.parameter UninitializedBuffer"): (b"\x88", DEVICE, name("torch half"), b"\x88"),
    name("torch Size"): (opcodes((1, 2)),),
    name("torch device"): (opcodes("cuda"), b"K\0"),
    name("_codecs encode"): (opcodes("a"), opcodes("latin1")),
    name("numpy dtype"): (opcodes("f4"), b"\x89", b"\x88"),
    name("numpy._core.multiarray _reconstruct"): (name("numpy ndarray"), opcodes((0,)), BYTES),
    name("numpy._core.multiarray scalar"): (DTYPE, BYTES),
    name("numpy._core.numeric _frombuffer"): (BYTES, DTYPE, opcodes((4,)), opcodes("C")),
    **{
        name(f"collections {kind}"): (opcodes([(1, 2)]), b"K\3")
        for kind in ("OrderedDict", "Counter", "defaultdict", "deque")
    },
    **{
        name(f"builtins {kind}"): (opcodes([1]), b"K\1", b"K\1")
        for kind in ("bytes", "bytearray", "complex", "frozenset", "range", "set", "slice")
    },
}


def loads(pickled):
    """1 for a result, 0 for a LoadError; anything else is raised."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("a/data.pkl", P2 + pickled + b".")
        z.writestr("a/data/0", bytes(16))
    try:
        gradhook.load(io.BytesIO(file.getvalue()))
        return 1
    except LoadError:
        return 0


@pytest.mark.parametrize("function", VALID)
def test_a_function_with_arguments_of_every_kind(function):
    drawn = random.Random(0)
    args = VALID[function]
    for count in range(len(args) + 2):
        loads(call(function, *args[:count], *([b"N"] * (count - len(args)))))
    for i in range(len(args)):
        for value in VALUES:
            loads(call(function, *args[:i], value, *args[i + 1 :]))
            other = list(args)
            other[i], other[drawn.randrange(len(args))] = value, drawn.choice(VALUES)
            loads(call(function, *other))


@pytest.mark.parametrize("made", VALUES)
def test_an_object_that_is_given_states_items_members_and_calls_of_every_kind(made):
    drawn = random.Random(0)
    for value in VALUES:
        for text in (
            *(made + value + b"b", made + value + b"Ns", made + value + b"a", made + value + b"R"),
            *(made + b"(" + value + b"e", made + b"(" + value + b"\x90", made + value + b"\x93"),
            *(made + b"}X\1\0\0\0a" + value + b"sb", made + b"}" + value + b"Nsb", value + b"Q"),
            b"".join((made, b"(", *drawn.choices(VALUES, k=drawn.randint(2, 8)), b"tb")),
            b"".join((b"(", *drawn.choices(VALUES, k=5), b"tQ")),
        ):
            loads(text)


def test_the_valid_arguments_and_values_are_taken():
    taken = [loads(call(function, *args)) for function, args in VALID.items()]
    assert sum(taken) >= 13 and all(loads(value) for value in VALUES)
