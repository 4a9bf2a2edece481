""".npz files: both ways with NumPy, bit for bit; no pickles; damaged ones."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook.serialization import LoadError, save_npz

DTYPES = "? i1 i2 i4 i8 u1 f2 f4 f8 c8 c16".split()


def arrays():
    drawn = np.random.default_rng(0)
    found = {}
    for dtype in DTYPES:
        for i, shape in enumerate([(2, 3), (), (0, 4), (1,)]):
            found[f"a/{dtype}.{i}"] = drawn.integers(0, 2, shape).astype(dtype)
    found["F"] = np.asfortranarray(drawn.normal(size=(2, 3, 4)))
    found["big"] = np.arange(6, dtype=">f4").reshape(2, 3)
    return found


def of(write, *args, **kwargs):
    file = io.BytesIO()
    write(file, *args, **kwargs)
    file.seek(0)
    return file


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_wrote_is_loaded_bit_for_bit(write):
    made = arrays()
    found = gradhook.load(of(write, **made))
    assert list(found) == list(made)
    for name, a in made.items():
        back = found[name].numpy(force=True)
        assert back.tobytes() == a.astype(a.dtype.newbyteorder("=")).tobytes(), name
        assert back.shape == a.shape and back.dtype == a.dtype.newbyteorder("="), name
    assert found["F"].stride() == (1, 2, 6)


def test_numpy_loads_what_is_written(tmp_path):
    made = {k: a.astype(a.dtype.newbyteorder("=")) for k, a in arrays().items()}
    made["file"] = made["T"] = made["F"].T
    save_npz({k: gradhook.from_numpy(a) for k, a in made.items()}, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert list(found) == list(made)
        for name, a in made.items():
            assert found[name].tobytes() == a.tobytes() and found[name].shape == a.shape, name


def test_a_module_s_state_and_map_location():
    model, other = nn.Linear(2, 3), nn.Linear(2, 3)
    file = io.BytesIO()
    save_npz(model.state_dict(), file)
    file.seek(0)
    assert other.load_state_dict(gradhook.load(file, map_location="cpu")) == ([], [])
    assert other.weight.tolist() == model.weight.tolist()


@pytest.mark.parametrize("given", [[1], {"a": [1.0]}, {1: gradhook.ones(1)}])
def test_only_names_and_tensors_are_written(given, tmp_path):
    with pytest.raises(TypeError, match="expected a dict of names to tensors, found"):
        save_npz(given, tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()


def npz(header, body=b"", magic=b"\x93NUMPY\1\0"):
    text = header.encode() + b"\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("a.npy", magic + len(text).to_bytes(2, "little") + text + body)
    return file.getvalue()


def header(descr="'<f4'", order="False", shape="(1,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (npz(header(shape="(1000000000000,)"), b"1234"), "has 4 bytes of values.*need 4000000000"),
        (npz(header(shape="(10, -1)"), b"1234"), "a damaged header"),
        (npz(header(shape=f"({'9' * 5000},)")), "a damaged header"),
        (npz(header(shape=f"({'9' * 500},)")), "shape has 9999999999999999999 in it"),
        (npz(header(shape=f"({'9,' * 70})")), "expected at most 64 ints"),
        (npz(header(shape="(99999999999999999, 99999999999999999)")), "larger than any memory"),
        (npz(header("'|O'"), b"12345678"), "the dtype 'O'"),
        (npz(header("'|O8'"), b"12345678"), "the dtype 'O8'.*arrays of objects are pickles"),
        (npz(header("'<U1'"), b"1234"), "the dtype 'U1', which tensors don't have"),
        (npz(header("'<u2'"), b"12"), "the dtype 'u2', which tensors don't have"),
        (npz(header("'<f99999'"), b"1234"), "the dtype 'f99999'"),
        (npz(header("[('x', '<f4')]"), b"1234"), "one of a structured dtype"),
        (npz("(" * 9000), "a damaged header"),
        (npz("__import__('os').system('true')"), "a damaged header"),
        (npz(header(), b"1234", b"\x93NUMPY\x09\0"), r"no \.npy file of version 1 to 3"),
        (npz(header(), b"1234", b"\x93NUMPX\1\0"), r"no \.npy file"),
    ],
)
def test_a_damaged_or_hostile_file_is_one_clear_error(data, text):
    with pytest.raises(LoadError, match=text):
        gradhook.load(io.BytesIO(data))


def test_arrays_of_objects_and_bombs_are_refused():
    file = of(np.savez, a=np.array([{}], dtype=object))
    with pytest.raises(LoadError, match=r"the dtype 'O', which tensors don't have"):
        gradhook.load(file)
    file = of(np.savez_compressed, a=np.zeros(1 << 22))
    with pytest.raises(LoadError, match=r"over 100 times the file's.*if you trust it, unpack"):
        gradhook.load(file)
