"""safetensors files: byte for byte those of the safetensors library, both ways; what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook import safetensors as files
from gradhook.serialization import LoadError

DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64".split()


def arrays():
    drawn = np.random.default_rng(0)
    return {
        f"{dtype}.{i}": drawn.integers(0, 2, shape).astype(dtype)
        for dtype in DTYPES
        for i, shape in enumerate([(2, 3), (), (0, 4), (1,)])
    }


def tensors(found):
    return {name: gradhook.from_numpy(a) for name, a in found.items()}


def raw(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype="F32", shape=(1,), place=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(place)}


def test_files_are_byte_for_byte_those_of_the_library_and_both_read_them(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    made = arrays()
    for metadata in (None, {}, {"format": "pt", "é": "ü"}):
        ours, theirs = files.save(tensors(made), metadata), library.save(made, metadata)
        assert ours == theirs or len(metadata or ()) > 1  # the library's order of several varies
        files.save_file(tensors(made), tmp_path / "a", metadata)
        assert (tmp_path / "a").read_bytes() == ours
        assert files.load_metadata(tmp_path / "a") == (metadata or {})
        for back in (files.load(theirs), files.load_file(str(tmp_path / "a"))):
            assert all(back[n].numpy(force=True).tobytes() == a.tobytes() for n, a in made.items())
            assert all(back[n].shape == a.shape for n, a in made.items())
            assert all(back[n].dtype == a.dtype for n, a in made.items())
        again = library.load(ours)
        assert again.keys() == made.keys()
        assert all(again[n].tobytes() == a.tobytes() for n, a in made.items())


def test_bfloat16_is_loaded_exactly_and_written_rounded_to_nearest_even():
    values = [1.0, -2.5, math.inf, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, 1e-40]
    rounded = [1.0, -2.5, math.inf, 1.0, 1 + 2**-6, 1 + 2**-7, math.inf]
    t = {"w": gradhook.tensor(values), "n": gradhook.tensor([math.nan]), "i": gradhook.ones(2)}
    t["i"] = t["i"].int()
    data = files.save(t, dtype="bfloat16")
    back = files.load(data)
    assert back["w"].dtype is gradhook.float32 and back["w"].tolist()[:7] == rounded
    assert math.isnan(back["n"].item()) and back["i"].dtype is gradhook.int32
    assert files.save(back, dtype="bfloat16") == data
    some = json.loads(files.save(t, dtype={"n": "bfloat16"})[8:].partition(b"}}")[0] + b"}}")
    assert [some[n]["dtype"] for n in "wni"] == ["F32", "BF16", "I32"]


def test_every_bfloat16_is_the_float32_of_its_bits():
    bits = np.arange(1 << 16, dtype="<u2")
    data = raw({"a": entry("BF16", (1 << 16,), (0, 1 << 17))}, bits.tobytes())
    found = files.load(data)["a"].numpy(force=True)
    assert np.array_equal(found.view("<u4"), bits.astype("<u4") << 16)


def tied():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[1].weight = model[0].weight
    return model


def test_a_model_with_tied_weights_is_written_once_and_loaded(tmp_path):
    a, b = tied(), tied()
    files.save_model(a, tmp_path / "m", {"note": "x"})
    assert files.load_metadata(tmp_path / "m") == {"note": "x", "1.weight": "0.weight"}
    assert "1.weight" not in files.load_file(tmp_path / "m")
    assert files.load_model(b, tmp_path / "m") == (set(), [])
    assert b[1].weight is b[0].weight and b[0].weight.tolist() == a[0].weight.tolist()
    with pytest.raises(RuntimeError, match=r"'0\.weight' and \['1\.weight'\] share memory"):
        files.save_file(a.state_dict(), tmp_path / "n")
    assert not (tmp_path / "n").exists()


def test_a_model_that_does_not_fit_is_not_changed(tmp_path):
    files.save_model(nn.Sequential(nn.Linear(2, 2)), tmp_path / "m")
    for other in (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), nn.Sequential(nn.Linear(3, 2))):
        before = [p.tolist() for p in other.parameters()]
        with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for Sequential"):
            files.load_model(other, tmp_path / "m")
        assert [p.tolist() for p in other.parameters()] == before
    bigger = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    missing, unexpected = files.load_model(bigger, tmp_path / "m", strict=False)
    assert (missing, unexpected) == ({"1.weight", "1.bias"}, [])


def test_parts_of_one_memory_are_refused_unless_they_lie_apart():
    t = gradhook.arange(6.0)
    assert files.load(files.save({"a": t[:3], "b": t[3:]}))["b"].tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="share memory"):
        files.save({"a": t[:4], "b": t[3:]})


@pytest.mark.parametrize(
    ("given", "options", "error", "text"),
    [
        ([1], {}, TypeError, "expected a dict of names to tensors, found list"),
        ({"a": 1.0}, {}, TypeError, "found 'a': float"),
        ({"a": gradhook.ones(2, 3).T}, {}, ValueError, r"'a'.*not contiguous"),
        ({"a": gradhook.ones(1).to(gradhook.complex128)}, {}, ValueError, "complex128"),
        ({"a": gradhook.ones(1)}, {"metadata": {"a": 1}}, TypeError, "a dict of str to str"),
        ({"a": gradhook.ones(1)}, {"dtype": "float8"}, ValueError, "expected 'bfloat16'"),
        ({"a": gradhook.ones(1)}, {"dtype": {"b": "bfloat16"}}, ValueError, "no tensors here"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(given, options, error, text):
    with pytest.raises(error, match=text):
        files.save(given, **options)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it has 0 bytes"),
        (b"\xff" * 20, "cut short, or no safetensors file"),
        (raw(b"{"), "header is damaged"),
        (raw(b"\xff\xff"), "header is damaged"),
        (raw(b"[" * 100_000), "header is damaged"),
        (raw(b'{"a":1,"a":2}'), "header is damaged: a name stands twice"),
        (raw([]), "header is a list"),
        (raw({"a": 3}), "'a' has no dtype, shape and place"),
        (raw({"a": entry("F8_E4M3", place=(0, 1))}, b"1"), "'F8_E4M3', which gradhook has no"),
        (raw({"a": entry(["F32"])}, b"1234"), "the dtype a list"),
        (raw({"a": entry(shape=(10**12, 10**12))}, b"1234"), "larger than any memory"),
        (raw({"a": entry(shape=(-1,))}, b"1234"), "has -1 in it"),
        (raw({"a": entry(shape=(True,))}, b"1234"), "has True in it"),
        (raw({"a": entry(shape=(2,))}, b"1234"), "it needs 8"),
        (raw({"a": entry(place=(0, 10**30))}, b"1234"), "expected ints"),
        (raw({"a": entry(place=(0,))}, b"1234"), "it needs 4"),
        (raw({"a": entry()}, b"12345"), "names 4 bytes of tensors, the file has 5"),
        (raw({"a": entry(), "b": entry()}, b"1234"), "begins at byte 0, expected 4"),
        (raw({"a": entry(place=(1, 5))}, b"12345"), "begins at byte 1, expected 0"),
        (raw({"__metadata__": {"a": 1}}), "metadata are no dict of texts"),
    ],
)
def test_a_damaged_file_is_one_clear_error(data, text):
    with pytest.raises(LoadError, match=text):
        files.load(data)


def test_the_error_names_the_file(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 8)
    with pytest.raises(LoadError, match=r"can't load the file '.*model\.safetensors': its header"):
        files.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.pt").write_bytes(files.save({"a": gradhook.ones(1)}))
    with pytest.raises(LoadError, match=r"use gradhook\.safetensors\.load_file"):
        gradhook.load(tmp_path / "model.pt")
