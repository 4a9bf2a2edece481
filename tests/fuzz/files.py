"""Damaged files: cd tests && python -m fuzz.files --files 10000 --seed 7. Exit status 1 when one
crashes, hangs, takes much memory or changes a parameter; each is written out, to be run again.

A file is an honest one that went through one to three of MUTATIONS: of its bytes, of the zip
entries (then with right checksums), of the pickle's opcodes, of a safetensors header.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import signal
import sys
import tracemalloc
import warnings
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

os.environ.setdefault("GRADHOOK_DEVICE", "cpu")

import numpy as np

import gradhook
from gradhook import nn, optim, safetensors
from gradhook.serialization import LoadError, save_npz

SECONDS = 30  # an honest file takes a few milliseconds
TIMES, FREE = 8, 4 << 20  # bytes of memory a file may take: TIMES its size, and FREE
EXTREMES = [0, 1, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
OPCODES = b"(.012NI\x88\x89K\x00MJ\x8a\x8b]}){eustbqrhjRQ\x85\x86\x87\x8f\x90\x91\x93\x94\x81b"
GLOBALS = (
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"cbuiltins\nbytearray\n",
    b"cbuiltins\nrange\n",
    b"cnumpy\nndarray\n",
    b"cnumpy\ndtype\n",
    b"ctorch\nSize\n",
    b"ctorch\nBFloat16Storage\n",
    b"ctorch\nDoubleStorage\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch._tensor\n_rebuild_from_type_v2\n",
    b"ccollections\ndeque\n",
    b"cgradhook.nn.linear\nLinear\n",
)


def model():
    """What is loaded into."""
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def honest():
    """Kinds of files, and the bytes of one of each."""
    gradhook.manual_seed(0)
    net = model()
    found = {}

    def checkpoint(name, obj, protocol=2):
        file = io.BytesIO()
        gradhook.save(obj, file, pickle_protocol=protocol)
        found[name] = file.getvalue()

    checkpoint("state", net.state_dict())
    checkpoint("state, protocol 4", net.state_dict(), 4)
    opt = optim.Adam(net.parameters())
    net(gradhook.ones(2, 3)).sum().backward()
    opt.step()
    checkpoint("optimizer", {"opt": opt.state_dict(), "net": net.state_dict(keep_vars=True)})
    t = gradhook.arange(24.0).reshape(2, 3, 4)
    things = [t, t.permute(2, 0, 1), t[1, ::2], nn.Buffer(t.int()), gradhook.float16, t.shape]
    arrays = [np.ones((2, 3)), np.float32(1), np.arange(3, dtype=">i4")]
    others = [{1, 2}, frozenset((3,)), 1j, b"ab", bytearray(2), range(3), slice(1, 2, 3), 2**70]
    counted = [Counter("ab"), OrderedDict(a=[1, 2.5, None, True]), {("a", 1): ()}]
    for protocol in (2, 5):
        checkpoint(f"things, protocol {protocol}", things + arrays + others + counted, protocol)
    state = {k: v.contiguous() for k, v in net.state_dict().items()}
    found["safetensors"] = safetensors.save(state, {"format": "pt"}, dtype={"0.weight": "bfloat16"})
    file = io.BytesIO()
    save_npz(state, file)
    found["npz"] = file.getvalue()
    file = io.BytesIO()
    np.savez_compressed(file, **{k: v.numpy(force=True) for k, v in state.items()})
    found["npz, deflated"] = file.getvalue()
    return found


# ---- mutations: (bytes, random.Random) -> bytes


def flip(data, r):
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 8))):
        out[r.randrange(len(out))] ^= 1 << r.randrange(8)
    return bytes(out)


def cut(data, r):
    return data[: r.randrange(len(data))]


def drop(data, r):
    i = r.randrange(len(data))
    return data[:i] + data[i + r.randint(1, 64) :]


def repeat(data, r):
    i = r.randrange(len(data))
    return data[:i] + data[i : i + r.randint(1, 64)] * r.choice((2, 2, 500)) + data[i:]


def insert(data, r):
    i = r.randrange(len(data) + 1)
    return data[:i] + r.randbytes(r.randint(1, 16)) + data[i:]


def extreme(data, r):
    """Overwrite a field, as a size or an offset would be."""
    size = r.choice((1, 2, 4, 8))
    i = r.randrange(max(1, len(data) - size))
    value = r.choice(EXTREMES) % (1 << 8 * size)
    return data[:i] + value.to_bytes(size, "little") + data[i + size :]


def zip_field(data, r):
    """An extreme in a zip header."""
    heads = [m.start() for m in re.finditer(b"PK(\x01\x02|\x03\x04|\x05\x06|\x06\x06)", data)]
    if not heads:
        return extreme(data, r)
    i = r.choice(heads) + r.randrange(4, 46)
    size = r.choice((1, 2, 4))
    return (
        data[:i]
        + (r.choice(EXTREMES) % (1 << 8 * size)).to_bytes(size, "little")
        + data[i + size :]
    )


BYTES = (flip, cut, drop, repeat, insert, extreme)


def entries(data):
    """The entries of a zip file, None when it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            return [[i.filename, z.read(i), i.compress_type] for i in z.infolist()]
    except Exception:
        return None


def zipped(parts):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two entries of one name
        with zipfile.ZipFile(file, "w") as z:
            for name, data, kind in parts:
                z.writestr(zipfile.ZipInfo(name), data, kind)
    return file.getvalue()


def in_entry(data, r):
    """The bytes of one entry."""
    parts = entries(data)
    if not parts:
        return flip(data, r)
    part = r.choice(parts)
    if part[1]:
        part[1] = r.choice(BYTES)(part[1], r)
    return zipped(parts)


def among_entries(data, r):
    """Swap, drop, double, rename or deflate entries."""
    parts = entries(data)
    if not parts:
        return drop(data, r)
    a, b = r.choice(parts), r.choice(parts)
    what = r.randrange(5)
    if what == 0:
        a[1], b[1] = b[1], a[1]
    elif what == 1:
        parts.remove(a)
    elif what == 2:
        parts.append(list(a))
    elif what == 3:
        a[0] = r.choice((b[0], a[0] + "x", "../" + a[0], "archive/data.pkl", "é" * 40))
    else:
        a[2] = zipfile.ZIP_DEFLATED
    return zipped(parts)


def in_pickle(data, r):
    """Insert, drop or replace opcodes and names."""
    parts = entries(data)
    pickles = [p for p in parts or () if p[0].endswith("data.pkl") and p[1]]
    if not pickles:
        return extreme(data, r)
    text = pickles[0][1]
    for _ in range(r.choice((1, 1, 2, 4))):
        i = r.randrange(len(text) + 1)
        some = r.choice((bytes([r.choice(OPCODES)]), r.choice(GLOBALS), r.randbytes(2)))
        if r.randrange(30) == 0:
            some = some * r.choice((10, 20_000))
        text = text[:i] + some + text[i + r.choice((0, len(some))) :]
    pickles[0][1] = text
    return zipped(parts)


def names_in_pickle(data, r):
    """Put one name or number of the pickle in another's place."""
    parts = entries(data)
    pickles = [p for p in parts or () if p[0].endswith("data.pkl")]
    if not pickles:
        return repeat(data, r)
    tokens = re.findall(rb"c[\w.]+\n\w+\n|K.|M..|J....|X....\w+|[h]\S", pickles[0][1], re.DOTALL)
    if tokens:
        pickles[0][1] = pickles[0][1].replace(r.choice(tokens), r.choice(tokens), r.choice((1, -1)))
    return zipped(parts)


def in_header(data, r):
    """A number, dtype or key of a safetensors header."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        entry = header[r.choice(list(header))]
        key = r.choice(list(entry))
        value = r.choice((0, -1, 1.5, None, [], [1], {}, "F64", 10**30, *EXTREMES))
        if isinstance(entry[key], list) and entry[key] and r.randrange(2):
            entry[key][r.randrange(len(entry[key]))] = value
        else:
            entry[key] = value
    except (ValueError, TypeError, LookupError):
        return flip(data, r)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


FOR_ZIP = (*BYTES, zip_field, zip_field, in_entry, among_entries, in_pickle, in_pickle)
FOR_ZIP = (*FOR_ZIP, in_pickle, names_in_pickle, names_in_pickle)
MUTATIONS = {"zip": FOR_ZIP, "safetensors": (*BYTES, in_header, in_header, in_header)}


# ---- checking


class Wrong(AssertionError):
    """What a damaged file did."""


@contextlib.contextmanager
def time_limit():
    """Errors: Wrong for what hangs."""

    def hangs(*_):
        raise Wrong(f"it takes over {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load(kind, data):
    """What a file holds, loaded as its kind is."""
    if kind == "safetensors":
        return safetensors.load(data)
    return gradhook.load(io.BytesIO(data))


def bits(net):
    """The bytes of every parameter and buffer."""
    return [t.numpy(force=True).tobytes() for t in net.state_dict().values()]


def checked(kind, data, net):
    """Load a file, into a Module if it has a dict. Returns what came of it, in a word. Errors:
    Wrong.
    """
    before = bits(net)
    tracemalloc.start()
    try:
        with time_limit():
            found = load(kind, data)
        result = "loaded"
    except LoadError as error:
        found, result = None, "refused"
        if not str(error).startswith("can't load the file: ") or len(str(error)) > 700:
            raise Wrong(f"its error is not clear: {error}") from error
    except Exception as error:
        raise Wrong(f"it raises {type(error).__name__}: {error}") from error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if peak > TIMES * len(data) + FREE:
        raise Wrong(f"it takes {peak} bytes of memory, the file has {len(data)}")
    if isinstance(found, dict):
        try:
            net.load_state_dict(found)
            return "fits"
        except (RuntimeError, TypeError):
            result = "loaded, does not fit"
    if bits(net) != before:
        raise Wrong("it changed a parameter and raised")
    return result


def damaged(kind, data, r):
    """The bytes of a file after one to three mutations."""
    some = MUTATIONS["safetensors" if kind == "safetensors" else "zip"]
    for _ in range(r.choice((1, 1, 2, 3))):
        data = r.choice(some)(data, r) or b"\0"
    return data


def run(count, seed):
    """Check `count` files. Yields (kind, result, data, None or the Wrong)."""
    originals = honest()
    net = model()
    for kind, data in originals.items():
        if checked(kind, data, net) == "refused":
            raise Wrong(f"the honest file of {kind} is refused")
    for i in range(count):
        r = random.Random(seed * 1_000_003 + i)
        kind = r.choice(list(originals))
        data = damaged(kind, originals[kind], r)
        try:
            yield kind, checked(kind, data, net), data, None
        except Wrong as error:
            yield kind, "WRONG", data, error


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.files", description=__doc__)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, default=Path(), help="a folder for the wrong ones")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for i, (kind, result, data, error) in enumerate(run(options.files, options.seed)):
        counts[result] += 1
        if error is not None:
            path = options.into / f"wrong-{options.seed}-{i}.bin"
            path.write_bytes(data)
            print(f"{path} ({kind}): {error}", flush=True)
    print(", ".join(f"{result}: {n}" for result, n in counts.most_common()))
    return int(counts["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
