"""The demonstration: it learns, its table and picture are complete, wrong options end at once."""

from __future__ import annotations

import contextlib
import io
import re
import struct
import zlib

import numpy as np
import pytest

import gradhook

for _package in ("sklearn", "rich", "matplotlib"):
    pytest.importorskip(_package, reason=f"the demo needs {_package}: pip install 'gradhook[demo]'")

from gradhook import nn  # noqa: E402
from gradhook.demo import data, model  # noqa: E402
from gradhook.demo.command import main  # noqa: E402
from gradhook.demo.monitor import Monitor  # noqa: E402

LAYERS = "conv1 relu1 pool1 conv2 relu2 pool2 flatten dense1 relu3 dense2".split()


def png_chunks(content):
    """(type, data) of each chunk; the checksums are right."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    place = 8
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        body = content[place + 4 : place + 8 + length]
        (checksum,) = struct.unpack(">I", content[place + 8 + length : place + 12 + length])
        assert zlib.crc32(body) == checksum
        yield body[:4], body[4:]
        place += 12 + length


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole run with default settings: what it printed and its picture."""
    picture = tmp_path_factory.mktemp("demo") / "gradflow.png"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["--output", str(picture), "--device", "cpu"]) == 0
    return printed.getvalue(), picture


def test_it_reaches_97_percent_on_the_test_images(finished):
    printed, _ = finished
    found = re.search(r"test accuracy (\d\.\d{4}) \((\d+) of 360\) .* in \d+\.\d s on cpu", printed)
    assert float(found[1]) >= 0.97 and float(found[1]) == pytest.approx(
        int(found[2]) / 360, abs=1e-4
    )


def test_its_table_has_a_complete_row_for_every_layer(finished):
    printed, _ = finished
    number = r"-?\d+\.\d+(?:e[+-]\d\d)?"
    row = rf"^ *(\w+) +\w+.* +({number}) +({number}) +({number})% +(\d+) +({number}) +({number}) *$"
    rows = re.findall(row, printed, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == LAYERS
    for _name, first, last, zeros, broken, _mean, std in rows:
        assert float(first) > 0 and float(last) > 0 and float(std) > 0
        assert 0 <= float(zeros) <= 100 and broken == "0"


def test_its_picture_is_a_png_of_sensible_size(finished):
    _, picture = finished
    chunks = list(png_chunks(picture.read_bytes()))
    assert chunks[-1][0] == b"IEND"
    width, height = struct.unpack(">II", chunks[0][1][:8])
    assert 1200 <= width <= 3000 and 800 <= height <= 2000
    pixels = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    assert len(set(pixels[:: len(pixels) // 50_000])) > 50  # not an empty sheet
    assert 20_000 < picture.stat().st_size < 1_000_000


def test_quiet_prints_the_result_line_only(tmp_path, capsys):
    picture = tmp_path / "a.png"
    assert main(["--quiet", "--epochs", "1", "--output", str(picture), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("test accuracy 0.") and printed.count("\n") == 1
    assert picture.exists()


def test_the_same_seed_gives_the_same_numbers(tmp_path, capsys):
    results = []
    for seed in ("3", "3", "4"):
        main(["--quiet", "--epochs", "1", "--seed", seed, "--output", str(tmp_path / "a.png")])
        results.append(capsys.readouterr().out.split(" after ")[0])
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "expected a whole number of at least 1, found '0'"),
        (["--epochs", "many"], "expected a whole number of at least 1, found 'many'"),
        (
            ["--output", "picture.jpg"],
            "expected a file name that ends in .png, found 'picture.jpg'",
        ),
        (["--output", "nowhere/at/all.png"], "there is no folder 'nowhere/at'"),
        (["--device", "tpu"], "invalid choice: 'tpu'"),
        (["--loud"], "unrecognized arguments: --loud"),
    ],
)
def test_a_wrong_option_is_one_clear_error_before_any_training(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    error = capsys.readouterr().err
    assert end.value.code == 2 and message in error and error.count("error:") == 1


@pytest.mark.skipif(gradhook.backend.is_available(), reason="there is a CUDA device here")
def test_cuda_without_a_device_says_why_and_what_to_do(capsys):
    assert main(["--device", "cuda"]) == 1
    error = capsys.readouterr().err
    assert gradhook.backend.why_not() in error and "leave --device out" in error


def test_the_monitor_sees_what_numpy_computes():
    layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    monitor = Monitor(layers)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    layers(gradhook.from_numpy(x)).sum().backward()
    monitor.end_step()
    monitor.end_epoch()
    seen = monitor.history()
    weight, bias = (p.detach().numpy() for p in layers[0].parameters())
    hidden = x @ weight.T + bias
    gradient = (hidden > 0).astype(np.float32)
    assert seen.norm[0] == pytest.approx([np.linalg.norm(gradient), np.sqrt(20)], rel=1e-5)
    assert seen.zeros[0] == pytest.approx([np.mean(gradient == 0), 0], abs=1e-6)
    assert seen.non_finite[0].tolist() == [0, 0]
    out = np.maximum(hidden, 0)
    assert seen.mean[0] == pytest.approx([hidden.mean(), out.mean()], rel=1e-5)
    assert seen.std[0] == pytest.approx([hidden.std(ddof=1), out.std(ddof=1)], rel=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy's, of inf - inf
def test_the_monitor_counts_what_is_not_finite_and_leaves_no_hook_behind():
    layer = nn.Linear(2, 3)
    monitor = Monitor(layer)
    y = layer(gradhook.ones(1, 2))
    y.backward(gradhook.tensor([[float("inf"), float("nan"), 1.0]]))
    monitor.end_step()
    monitor.end_epoch()
    assert monitor.history().non_finite.tolist() == [[2.0]]
    monitor.remove()
    layer(gradhook.ones(1, 2)).sum().backward()
    assert len(monitor.history().norm) == 1


def test_the_model_has_the_size_its_docstring_says():
    count = sum(p.numel() for p in model.classifier().parameters())
    assert f"{count:,} parameters" in model.classifier.__doc__


def test_the_digits_are_standardised_and_no_test_image_is_trained_on():
    digits = data.load("cpu")
    assert len(digits.train_labels) == 1437 and len(digits.test_labels) == data.N_TEST
    images = digits.train_images.numpy()
    assert images.dtype == np.float32 and images.shape[1:] == (1, 8, 8)
    assert abs(images.mean()) < 1e-3 and abs(images.std() - 1) < 1e-3
    batches = list(digits.batches(64, np.random.default_rng(0)))
    assert len(batches) == 22 and all(len(labels) == 64 for _, labels in batches)
