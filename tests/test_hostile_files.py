"""Files made to harm: each is one clear error, in memory of a small multiple of its size."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import gradhook
from gradhook import nn
from gradhook.serialization import LoadError

P2 = b"\x80\x02"
STORAGE = (
    b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
    b"X\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
)
END = b"\x89}tR."  # requires_grad False, hooks {}


def archive(data, records=(), **others):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", data)
        for key, record in enumerate(records):
            z.writestr(f"archive/data/{key}", record)
        for name, record in others.items():
            z.writestr(f"archive/{name}", record)
    return file.getvalue()


def zipped(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr(name, "{}")
    return file.getvalue()


def refused(data, text, times=3, free=1 << 21):
    """Errors unless loading it is a LoadError with the text, within memory."""
    tracemalloc.start()
    try:
        with pytest.raises(LoadError, match=text):
            gradhook.load(io.BytesIO(data))
        assert tracemalloc.get_traced_memory()[1] < times * len(data) + free
    finally:
        tracemalloc.stop()


def opcodes(obj):
    return pickle.dumps(obj, 2)[2:-1]


def call(name, *args):
    return P2 + b"c" + name + b"\n" + opcodes(args) + b"R."


class Runs:
    def __reduce__(self):
        return print, ("run",)


HOSTILE = {
    "a memo index of 2**31": (P2 + b"]r\0\0\0\x80.", "notes object 2147483648"),
    "a memo index never noted": (P2 + b"j\xff\xff\xff\xff.", "asks for object 4294967295"),
    "a bytearray of 10**12": (call(b"builtins\nbytearray", 10**12), "a bytearray is made of 10000"),
    "an array of 10**12": (call(b"numpy\nndarray", (10**12,)), "which is no function"),
    "an array of 10**12, reconstructed": (
        P2 + b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
        b"\x8a\x06" + (10**12).to_bytes(6, "little") + b"\x85cnumpy\ndtype\ntR.",
        "not made as NumPy's pickles make it",
    ),
    "an array of 10**12 by its state": (
        P2 + b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85"
        b"c_codecs\nencode\n(X\1\0\0\0bX\6\0\0\0latin1tRtR(K\1"
        b"\x8a\x06" + (10**12).to_bytes(6, "little") + b"\x85cnumpy\ndtype\n(X\2\0\0\0f8tR\x89"
        b"c_codecs\nencode\n(X\0\0\0\0X\6\0\0\0latin1tRtb.",
        "has 0 bytes, 1000000000000 of float64 need",
    ),
    "a dtype of objects": (call(b"numpy\ndtype", "O8"), "a NumPy dtype is 'O8'"),
    "a range of 10**12 in a set": (
        P2 + b"cbuiltins\nset\ncbuiltins\nrange\n" + opcodes((0, 10**12)) + b"R\x85R.",
        "a set is made of a range",
    ),
    "a range in a bytearray": (
        P2 + b"cbuiltins\nbytearray\ncbuiltins\nrange\n" + opcodes((0, 10**9)) + b"R\x85R.",
        "a bytearray is made of a range",
    ),
    "nested tuples as a key": (
        P2 + b"}K\1q\0" + b"h\0\x86q\0" * 60 + b"K\1s.",
        "a dict has the key a tuple",
    ),
    "nested tuples in a set": (
        b"\x80\x04\x8f(K\1q\0" + b"h\0\x86q\0" * 60 + b"\x90.",
        "a dict has the key a tuple",
    ),
    "os.system": (call(b"os\nsystem", "echo run"), r"the file names os\.system"),
    "os.system by its other name": (call(b"posix\nsystem", "true"), r"names posix\.system"),
    "eval": (call(b"builtins\neval", "1"), r"names builtins\.eval"),
    "a name within a name": (
        b"\x80\x04\x8c\x08gradhook\x8c\x0fbackend.os.name\x93.",
        r"names gradhook\.backend\.os\.name",
    ),
    "an object that runs": (pickle.dumps(Runs(), 2), "names __builtin__.print"),
    "a call of what was made": (P2 + b"]})R.", "calls a dict|takes objects"),
    "a call without arguments": (P2 + b"ctorch._utils\n_rebuild_tensor_v2\n)R.", "wrong arguments"),
    "a huge LONG4": (P2 + b"\x8b\xff\xff\xff\x7f1.", "cut short: 2147483647 bytes are named"),
    "a LONG4 of negative size": (P2 + b"\x8b\xff\xff\xff\xff1.", "negative size"),
    "a huge text": (P2 + b"X\xff\xff\xff\xffa.", "cut short: 4294967295 bytes"),
    "a huge frame": (b"\x80\x04\x95" + b"\xff" * 8 + b"N.", "a frame is longer"),
    "a text without an end": (P2 + b"cos", "a name without an end"),
    "a key of 10**5 digits": (
        P2 + b"}" + opcodes(1 << 330_000) + b"K\1s.",
        "an int of",
    ),
    "protocol 0": (b"(dp0\n.", "the opcode b'd'|protocol"),
    "protocol 9": (b"\x80\x09N.", "has protocol 9"),
    "nothing": (b"", "cut short"),
    "open containers": (P2 + b"(N.", "ends with open containers"),
    "a list put into itself as its items": (P2 + b"]q\0h\0h\0s.", "puts items into what is none"),
    "an attribute that hides a method": (
        P2 + b"ccollections\nOrderedDict\n)R}X\5\0\0\0itemsK\1sb.",
        "has the attribute 'items'",
    ),
    "a storage of another file": (
        P2 + b"(X\7\0\0\0storagectorch\nFloatStorage\nX\x13\0\0\0../../../etc/passwd"
        b"X\3\0\0\0cpuK\4tQ.",
        "of a storage is missing",
    ),
    "a persistent id of anything": (P2 + b"X\1\0\0\0aQ.", "names 'a', expected a storage"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused(name, capsys):
    data, text = HOSTILE[name]
    refused(archive(data), text)
    assert capsys.readouterr().out == ""


def tensor(offset, size, stride):
    return P2 + STORAGE + opcodes(offset) + opcodes(size) + opcodes(stride) + END


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((0, (5,), (1,)), "needs 5 elements, its storage has 4"),
        ((1, (2, 2), (2, 1)), "needs 5 elements"),
        ((4, (), ()), "needs 5 elements"),
        ((0, (10**12,), (1,)), "needs 1000000000000 elements"),
        ((0, (2,), (10**12,)), "needs 1000000000001 elements"),
        ((-1, (2,), (1,)), "offset has -1 in it"),
        ((0, (-2,), (1,)), "size has -2 in it"),
        ((0, (2,), (-1,)), "stride has -1 in it"),
        ((0, (2, 2), (1,)), "2 sizes and 1 strides"),
        ((0, (10**17, 10**17), (0, 0)), "larger than any memory"),
        ((0, (0, 10**17, 10**17), (0, 0, 0)), "larger than any memory"),
        ((0, (2**70,), (1,)), "expected ints from 0"),
        ((2.0, (2,), (1,)), "offset has 2.0 in it"),
        ((0, (True,), (1,)), "size has True in it"),
        ((0, "22", (1, 1)), "size is '22'"),
        ((0, (1,) * 65, (1,) * 65), "expected at most 64"),
    ],
)
def test_a_tensor_outside_its_storage_is_refused(place, text):
    refused(archive(tensor(*place), [bytes(16)]), text)


def test_an_empty_tensor_of_large_sizes_takes_no_memory():
    t = gradhook.load(io.BytesIO(archive(tensor(0, (0, 10**6, 10**6), (1, 1, 1)), [bytes(16)])))
    assert t.shape == (0, 10**6, 10**6)


def test_a_tensor_of_many_elements_over_few_takes_no_memory():
    tracemalloc.start()
    t = gradhook.load(io.BytesIO(archive(tensor(0, (10**6, 10**6), (0, 0)), [bytes(16)])))
    assert t.shape == (10**6, 10**6) and tracemalloc.get_traced_memory()[1] < 1 << 21
    tracemalloc.stop()


@pytest.mark.parametrize("nbytes", [0, 12, 20])
def test_a_storage_of_another_size_is_refused(nbytes):
    refused(archive(tensor(0, (1,), (1,)), [bytes(nbytes)]), f"has {nbytes} bytes, its storage 16")


@pytest.mark.parametrize("piece", [b"\x8f\x94", b"h\0)R", b"(", b"}\x94", b"]", b"h\0h\1R"])
def test_many_small_objects_take_a_bounded_multiple_of_the_file(piece):
    head = b"ccollections\nOrderedDict\nq\0(h\0)R" + b"\x85q\1"
    data = b"\x80\x04" + head + piece * (150_000 // len(piece)) + b"."
    refused(archive(data), ".", times=90, free=1 << 23)


def test_copies_of_copies_are_charged():
    big = b"(" + b"K\1" * 10_000 + b"tq\0"
    data = P2 + b"cbuiltins\nset\nq\1" + big + b"\x85q\2" + b"h\1h\2R" * 10_000 + b"."
    refused(archive(data), "made to fill the memory", times=90)


@pytest.mark.parametrize("step", [2**61 - 1, 2**32, 2**40 * 3])
def test_keys_whose_hashes_meet_do_not_hang(step):
    keys = b"".join(opcodes(k * step) + b"N" for k in range(20_000))
    try:
        gradhook.load(io.BytesIO(archive(P2 + b"}(" + keys + b"u.")))
    except LoadError as error:
        assert "a dict has the key" in str(error)


def test_tuples_as_keys_are_counted():
    keys = b"".join(opcodes((k, k)) + b"N" for k in range(5000))
    refused(archive(P2 + b"}(" + keys + b"u."), "up to 4096 flat tuples", times=70)


# ---- the zip file


def test_two_entries_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = archive(b"", **{"data.pkl": b"N."})
    refused(data, "two entries named 'archive/data.pkl'")


def test_entries_that_overlap_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", P2 + b"N.")
        z.writestr("archive/data/0", bytes(1 << 16))
        info = z.getinfo("archive/data/0")
        for k in range(1, 1000):
            copy = zipfile.ZipInfo(f"archive/data/{k}")
            copy.header_offset, copy.CRC = info.header_offset, info.CRC
            copy.file_size = copy.compress_size = info.file_size
            z.filelist.append(copy)
            z.NameToInfo[copy.filename] = copy
    refused(file.getvalue(), "cut short, or they overlap", times=20)


@pytest.mark.parametrize(("size", "ratio"), [(1 << 28, "over 100 times"), (1 << 10, "compressed")])
def test_a_bomb_is_refused(size, ratio):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", P2 + b"N.")
        z.writestr("archive/data/0", bytes(size))
    refused(file.getvalue(), ratio)


def test_an_encrypted_entry_is_refused():
    data = bytearray(archive(P2 + b"N."))
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    refused(bytes(data), "is encrypted")


def test_every_truncation_and_every_flipped_byte_of_the_data_is_seen():
    file = io.BytesIO()
    gradhook.save({"w": gradhook.arange(4.0)}, file)
    data = file.getvalue()
    for end in range(0, len(data), 7):
        refused(data[:end], "can't load the file")
    start = data.index(np.arange(4, dtype="f4").tobytes())
    for i in range(start, start + 16):
        refused(data[:i] + bytes([data[i] ^ 16]) + data[i + 1 :], "Bad CRC-32")


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"byteorder": b"middle"}, "byteorder is 'middle'"),
        ({"version": b"99\n"}, "version '99', expected 3"),
        ({"constants.pkl": b""}, "a TorchScript program"),
    ],
)
def test_records_of_another_kind_of_file_are_named(others, text):
    refused(archive(P2 + b"N.", **others), text)


def test_a_big_endian_file_is_swapped():
    data = tensor(1, (3,), (1,))
    made = archive(data, [struct.pack(">4f", 1, 2, 3, 4)], byteorder=b"big")
    assert gradhook.load(io.BytesIO(made)).tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (b"", "it is empty"),
        (P2 + b"N.", "a bare pickle, as torch.save wrote before PyTorch 1.6"),
        (b"\x93NUMPY\1\0", r"an \.npy file; use gradhook\.from_numpy"),
        (b"GGUF\3\0\0\0", r"it begins with b'GGUF"),
        (zipped("model/config.json"), r"has the entry 'model/config\.json': it is neither"),
    ],
)
def test_another_kind_of_file_says_the_way_out(start, text, tmp_path):
    (tmp_path / "some.pt").write_bytes(start)
    with pytest.raises(LoadError, match=text) as error:
        gradhook.load(tmp_path / "some.pt")
    assert str(error.value).startswith(f"can't load the file '{tmp_path}/some.pt': ")
    assert isinstance(error.value, pickle.UnpicklingError | RuntimeError)


def test_a_file_that_is_refused_changes_no_parameter(tmp_path):
    model = nn.Linear(2, 2)
    before = model.weight.tolist()
    gradhook.save({**model.state_dict(), "bias": gradhook.ones(3)}, tmp_path / "a.pt")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            model.load_state_dict(gradhook.load(tmp_path / "a.pt"))
        (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:-30])
    assert model.weight.tolist() == before
