"""safetensors files both ways with safetensors.torch, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
from gradhook import safetensors as ours

torch = pytest.importorskip("torch", reason="differential tests need torch")
theirs = pytest.importorskip("safetensors.torch")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64".split()


def random_bits(dtype):
    drawn = np.random.default_rng(0)
    if dtype == "bool":
        return drawn.integers(0, 2, (3, 5)).astype(bool)
    return np.frombuffer(drawn.bytes(15 * np.dtype(dtype).itemsize), dtype).reshape(3, 5).copy()


def test_every_dtype_goes_both_ways_bit_for_bit(tmp_path):
    made = {dtype: random_bits(dtype) for dtype in DTYPES}
    of_torch = {k: torch.from_numpy(a) for k, a in made.items()}
    theirs.save_file(of_torch, tmp_path / "t", {"format": "pt"})
    ours.save_file({k: gradhook.from_numpy(a) for k, a in made.items()}, tmp_path / "g")
    found, back = ours.load_file(tmp_path / "t"), theirs.load_file(tmp_path / "g")
    for name, a in made.items():
        assert found[name].numpy(force=True).tobytes() == a.tobytes()
        assert back[name].numpy().tobytes() == a.tobytes() and back[name].shape == (3, 5)
        assert str(found[name].dtype)[9:] == str(back[name].dtype)[6:] == name


def test_bfloat16_goes_both_ways_and_is_rounded_as_torch_does():
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    found = ours.load(theirs.save({"a": bits}))["a"]
    assert np.array_equal(found.numpy(force=True).view("i4"), bits.float().view(torch.int32))
    wide = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype="u4").view("f4")
    wide = wide[~np.isnan(wide)]
    back = theirs.load(ours.save({"a": gradhook.from_numpy(wide)}, dtype="bfloat16"))["a"]
    assert back.dtype is torch.bfloat16
    expected = torch.from_numpy(wide).bfloat16()
    assert torch.equal(back.view(torch.int16), expected.view(torch.int16))


def tied(lib):
    model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
    model[1].weight = model[0].weight
    return model


def test_models_with_tied_weights_go_both_ways(tmp_path):
    a, b = tied(torch), tied(gradhook)
    theirs.save_model(a, tmp_path / "t")
    assert ours.load_model(b, tmp_path / "t") == (set(), [])
    assert b[1].weight is b[0].weight and b[0].weight.tolist() == a[0].weight.tolist()
    with gradhook.no_grad():
        b[0].weight.add_(1.0)
    ours.save_model(b, tmp_path / "g")
    theirs.load_model(a, tmp_path / "g")
    assert a[1].weight.tolist() == b[0].weight.tolist()
    assert (tmp_path / "t").stat().st_size == (tmp_path / "g").stat().st_size


def test_the_same_names_are_missing_and_unexpected(tmp_path):
    for lib, files in ((torch, theirs), (gradhook, ours)):
        files.save_model(
            lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2)), tmp_path / "m"
        )
        other = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Identity(), lib.nn.Linear(2, 1))
        missing, unexpected = files.load_model(other, tmp_path / "m", strict=False)
        assert missing == {"2.weight", "2.bias"} and set(unexpected) == {"1.weight", "1.bias"}
        with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "2.bias", "2.w'):
            files.load_model(other, tmp_path / "m")


def test_both_refuse_shared_and_strided_tensors():
    for lib, files in ((torch, theirs), (gradhook, ours)):
        t = lib.ones(2, 3)
        with pytest.raises(RuntimeError, match="share memory"):
            files.save({"a": t, "b": t})
        with pytest.raises(ValueError, match="contiguous"):
            files.save({"a": t.T})
