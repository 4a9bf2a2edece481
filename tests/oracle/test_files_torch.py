"""Checkpoints both ways: what torch.save writes gradhook.load reads, what gradhook.save writes
torch.load reads, bit for bit.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook.serialization import LoadError

torch = pytest.importorskip("torch", reason="differential tests need torch")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()


def from_torch(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return gradhook.load(file, **options)


def to_torch(value, weights_only=True, **options):
    file = io.BytesIO()
    gradhook.save(value, file, **options)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def bits(t):
    """dtype, sizes and the bytes of a tensor of either library."""
    if isinstance(t, torch.Tensor):
        t = t.detach()
    a = t.numpy(force=True)
    return str(t.dtype).partition(".")[2], a.shape, a.tobytes()


def random_bits(shape, dtype):
    """An array of any bits, NaNs with payloads, infinities and denormals too."""
    drawn = np.random.default_rng(0)
    if dtype == "bool":
        return drawn.integers(0, 2, shape).astype(bool)
    a = np.empty(shape, dtype)
    a.reshape(-1).view(np.uint8)[:] = drawn.integers(0, 256, a.nbytes)
    return a


def both(shape, dtype):
    a = random_bits(shape, dtype)
    return torch.from_numpy(a.copy()), gradhook.from_numpy(a.copy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4)])
def test_every_dtype_and_shape_goes_both_ways_bit_for_bit(dtype, shape):
    theirs, ours = both(shape, dtype)
    back = from_torch({"t": theirs})["t"]
    assert type(back) is gradhook.Tensor and bits(back) == bits(theirs) == bits(ours)
    assert bits(to_torch({"t": ours})["t"]) == bits(ours)


VIEWS = {
    "transposed": lambda t: t.permute(2, 0, 1),
    "narrow": lambda t: t[1:, :, 1:3],
    "steps": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(5, 3, 4),
    "diagonal": lambda t: t.diagonal(dim1=1, dim2=2),
    "element": lambda t: t[0, 1, 2],
    "none": lambda t: t[2:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_strides_offsets_and_shared_memory_go_both_ways(view):
    theirs, ours = both((2, 3, 4), "float32")
    for back, made in (
        (from_torch([theirs, VIEWS[view](theirs)]), [theirs, VIEWS[view](theirs)]),
        (to_torch([ours, VIEWS[view](ours)]), [ours, VIEWS[view](ours)]),
    ):
        assert [bits(t) for t in back] == [bits(t) for t in made]
        assert back[1].stride() == VIEWS[view](theirs).stride() or view == "none"
        back[0].fill_(7)
        assert back[1].tolist() == VIEWS[view](back[0]).tolist()


def test_conjugated_and_negated_views_arrive_as_their_values():
    z = torch.tensor([1 + 2j, 3 - 4j])
    made, back = [z.conj(), z, z.conj()[1:]], from_torch([z.conj(), z, z.conj()[1:]])
    assert [bits(t) for t in back] == [bits(t.resolve_conj()) for t in made]
    imag = from_torch(z.conj().imag)
    assert bits(imag) == bits(z.conj().imag.resolve_neg())


def test_bfloat16_is_loaded_as_float32_exactly():
    t = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    back, views = from_torch({"a": t, "b": t[256:].reshape(255, 256).T}).values()
    assert back.dtype is gradhook.float32
    same = torch.from_numpy(back.numpy())
    assert torch.equal(same.view(torch.int32), t.float().view(torch.int32))
    assert views.stride() == (1, 256)
    back.zero_()
    assert not views.any()


@pytest.mark.parametrize(
    "thing",
    [
        lambda: torch.ones(1, dtype=torch.uint16),
        lambda: torch.ones(1).to(torch.float8_e5m2),
        lambda: torch.ones(2).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 1, torch.quint8),
        lambda: torch.ones(2, device="meta"),
        lambda: torch.bfloat16,
        lambda: torch.strided,
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_gradhook_has_no_counterpart_of_is_named(thing):
    with pytest.raises(LoadError, match=r"torch.*which gradhook has no counterpart of; in PyTorch"):
        from_torch([thing()])


def test_parameters_buffers_and_attributes_go_both_ways():
    for lib, way in ((torch, from_torch), (gradhook, to_torch)):
        other = {torch: gradhook, gradhook: torch}[lib]
        p, frozen = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(2), False)
        p.note, t = "kept", lib.zeros(1)
        t.tag = 3
        made = [p, frozen, t, lib.nn.Buffer(lib.ones(1)), lib.ones(1, requires_grad=True), p]
        back = way(made)
        assert [type(x) is other.nn.Parameter for x in back] == [
            *(True, True, False, False, False, True)
        ]
        assert [x.requires_grad for x in back] == [x.requires_grad for x in made]
        assert back[0].note == "kept" and back[2].tag == 3 and back[5] is back[0]
        assert isinstance(back[3], other.nn.Buffer) and back[3].persistent is True


def test_what_describes_tensors_and_every_container_goes_both_ways():
    for lib, way in ((torch, from_torch), (gradhook, to_torch)):
        other = {torch: gradhook, gradhook: torch}[lib]
        made = {
            "size": lib.Size([2, 3]),
            "dtype": lib.float16,
            "device": lib.device("cpu"),
            "ints": [0, -1, 255, 256, 65536, 2**31, -(2**40), 2**63],
            "floats": (0.1, -0.0),
            "text": "é",
            "bytes": b"\0\xff",
            "none": None,
            "flags": (True, False),
            3: {},
            "set": {1, 2},
            "complex": 1 + 2j,
            "ordered": OrderedDict(a=1),
            "array": bytearray(2),
        }
        back = way(made)
        described = [back.pop(k) for k in ("size", "dtype", "device")]
        assert described == [other.Size([2, 3]), other.float16, other.device("cpu")]
        assert back == {k: v for k, v in made.items() if k in back}
    assert str(from_torch([torch.device("cuda", 1)])[0]) == "cuda:1"


def test_numpy_numbers_and_arrays_arrive():
    arrays = [np.float64(2.5), np.int32(-1), np.ones((2, 3)), np.ones((2, 3), ">i4").T, np.empty(0)]
    for protocol in (2, 3, 4, 5):
        file = io.BytesIO()
        torch.save({"a": arrays}, file, pickle_protocol=protocol)
        file.seek(0)
        expected = pickle.loads(pickle.dumps(arrays, protocol))
        for found, made in zip(gradhook.load(file)["a"], expected, strict=True):
            assert type(found) is type(made) and found.tobytes() == made.tobytes()
            assert found.shape == made.shape and found.dtype == made.dtype


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol 3")
def test_torch_reads_protocols_2_and_3(protocol):
    assert to_torch([gradhook.ones(1)], pickle_protocol=protocol)[0].item() == 1


def test_both_read_protocol_4_and_5_where_code_is_trusted():
    for protocol in (4, 5):
        made = [gradhook.ones(2), nn.Parameter(gradhook.ones(1)), gradhook.float16]
        back = to_torch(made, weights_only=False, pickle_protocol=protocol)
        assert back[0].tolist() == [1, 1] and back[2] is torch.float16


def transformer(lib):
    return lib.nn.Transformer(16, 2, 2, 2, 32, batch_first=True).eval()


def test_a_transformer_s_state_goes_both_ways_into_a_module():
    theirs, ours = transformer(torch), transformer(gradhook)
    src, tgt = np.random.default_rng(1).normal(size=(2, 2, 5, 16)).astype("float32")
    assert ours.load_state_dict(from_torch(theirs.state_dict())) == ([], [])
    y = ours(gradhook.from_numpy(src), gradhook.from_numpy(tgt)).numpy(force=True)
    z = theirs(torch.from_numpy(src), torch.from_numpy(tgt)).numpy(force=True)
    np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)
    fresh = transformer(torch)
    state = to_torch(ours.state_dict())
    assert state._metadata[""] == {"version": 1}
    fresh.load_state_dict(state)
    for name, value in theirs.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], value), name


def stepped(lib, kind, **options):
    p = lib.nn.Parameter(lib.ones(3))
    opt = getattr(lib.optim, kind)([p], **options)
    for _ in range(2):
        p.grad = lib.full((3,), 0.5)
        opt.step()
    return p, opt


@pytest.mark.parametrize(
    ("kind", "options"),
    [("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"amsgrad": True}), ("AdamW", {"lr": 0.01})],
)
def test_an_optimizer_goes_on_in_the_other_library(kind, options):
    for lib, other, way in ((torch, gradhook, from_torch), (gradhook, torch, to_torch)):
        p, opt = stepped(lib, kind, **options)
        q = other.nn.Parameter(other.tensor(p.tolist()))
        resumed = getattr(other.optim, kind)([q])
        resumed.load_state_dict(way(opt.state_dict()))
        p.grad, q.grad = lib.full((3,), 0.25), other.full((3,), 0.25)
        opt.step()
        resumed.step()
        np.testing.assert_allclose(q.tolist(), p.tolist(), rtol=1e-6)


def test_torch_s_older_form_of_file_says_the_way_out(tmp_path):
    path = tmp_path / "old.pt"
    torch.save([torch.ones(1)], path, _use_new_zipfile_serialization=False)
    with pytest.raises(LoadError, match=r"old\.pt.*bare pickle.*in PyTorch, load it and write it"):
        gradhook.load(path)


@pytest.mark.filterwarnings("ignore")
def test_a_torchscript_program_and_a_whole_module_say_the_way_out(tmp_path):
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), tmp_path / "m.pt")
    with pytest.raises(LoadError, match=r"a TorchScript program.*save the state_dict"):
        gradhook.load(tmp_path / "m.pt")
    with pytest.raises(LoadError, match=r"the file names torch\.nn\.modules\.linear\.Linear"):
        from_torch(torch.nn.Linear(1, 1))
    with pytest.raises(LoadError, match="gradhook has no counterpart of; in PyTorch, save the st"):
        from_torch(torch.nn.Linear(1, 1), weights_only=False)


def test_the_bytes_of_every_storage_begin_at_multiples_of_64(tmp_path):
    gradhook.save([gradhook.ones(3), gradhook.ones(5)], tmp_path / "a.pt")
    reader = torch._C.PyTorchFileReader(str(tmp_path / "a.pt"))
    for name in reader.get_all_records():
        assert reader.get_record_offset(name) % 64 == 0
