"""The example of a small language model: it learns, and what it writes depends on the seed."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from example_scripts import FOLDER, example

import gradhook

SIZE = {"context": 12, "width": 16, "heads": 2, "layers": 2}


@pytest.fixture(scope="module")
def gpt():
    return example("char_gpt")


@pytest.fixture
def device():
    """Where tensors lie that name no device: on CUDA with --device cuda."""
    return gradhook.empty(0).device.type


@pytest.fixture
def model(gpt, device):
    gradhook.manual_seed(3)
    return gpt.GPT(7, gpt.Size(**SIZE)).to(device)


def codes(n, device, kinds=7):
    return gradhook.as_tensor(np.random.default_rng(0).integers(kinds, size=(2, n)), device=device)


def test_the_text_is_the_manual_in_whole_paragraphs_each_once(gpt):
    lines = gpt.prose().split("\n")
    assert len(set(lines)) == len(lines) > 300 and sum(map(len, lines)) > 50_000
    assert all(line.isascii() and line[0].isupper() and line[-1] in ".:" for line in lines)
    assert lines[0].startswith("Assert statements are a convenient way")
    assert gpt.encode("baab", "ab").tolist() == [1, 0, 0, 1]


def test_a_batch_is_pieces_of_the_text_and_what_follows(gpt):
    codes, following = next(gpt.batches(np.arange(100), 5, 8, 0))
    assert codes.shape == (5, 8) and (following == codes + 1).all()
    assert (np.diff(codes) == 1).all() and len(set(codes[:, 0])) > 1


def test_steps_over_one_batch_lower_its_loss(gpt, model, device):
    read = np.random.default_rng(1).integers(7, size=(2, 13))
    batch = (read[:, :-1], read[:, 1:])
    losses = [loss.item() for loss in gpt.train(model, [batch] * 4, 4, 1e-2, device)]
    assert len(losses) == 4 and losses[3] < losses[2] < losses[1] < losses[0]


@pytest.mark.cpu_only(reason="80 steps are 50,000 launches")
def test_an_untrained_model_knows_nothing_and_a_few_steps_lower_the_loss(gpt, device, capsys):
    text = "the quick brown fox jumps over the lazy dog. " * 40
    result = gpt.learn(text, gpt.Size(**SIZE), 80, batch=4, count=5, start="the ", device=device)
    assert len(result.losses) == 80
    assert result.losses[0] == pytest.approx(math.log(len(set(text))), abs=0.3)
    assert max(result.losses[-5:]) < 0.75 * result.losses[0]
    assert result.held_out < 0.75 * result.losses[0]  # the same sentence again
    assert result.text.startswith("the ") and len(result.text) == 9


def test_what_it_writes_depends_on_the_seed_alone(gpt, model, device):
    def written(seed, **options):
        generator = gradhook.Generator(device).manual_seed(seed)
        return gpt.write(model, codes(4, device), 30, generator, **options).tolist()

    first = written(5)
    gradhook.manual_seed(99)  # another generator's
    assert written(5) == first and written(6) != first
    assert np.shape(first) == (2, 34) and [row[:4] for row in first] == codes(4, device).tolist()
    greedy = written(5, top_k=1)
    assert written(6, top_k=1) == greedy == written(7, temperature=1e-4)


def test_no_character_sees_those_after_it(gpt, model, device):
    read = codes(12, device)
    other = read.clone()
    other[:, 6:] = (other[:, 6:] + 1) % 7
    with gradhook.no_grad():
        a, b = model(read).cpu().numpy(), model(other).cpu().numpy()
    assert a.shape == (2, 12, 7)
    np.testing.assert_array_equal(a[:, :6], b[:, :6])
    assert (a[:, 6:] != b[:, 6:]).any(-1).all()


def test_one_matrix_reads_and_names_and_gathers_both_gradients(gpt, model, device):
    tied = model.characters.weight
    assert model.head.weight is tied
    assert sum(p is tied for p in model.parameters()) == 1
    assert {"characters.weight", "head.weight"} <= set(model.state_dict())
    read = codes(12, device)
    gpt.mismatch(model, (read, read), device).backward()
    both = tied.grad.clone()
    model.zero_grad()
    named = gradhook.nn.Parameter(tied.detach().clone())
    model.head.weight = named
    gpt.mismatch(model, (read, read), device).backward()
    total = (tied.grad + named.grad).cpu().numpy()
    np.testing.assert_allclose(both.cpu().numpy(), total, rtol=1e-4, atol=1e-6)


@pytest.mark.cpu_only(reason="batches of the script's size take minutes on the CPU test device")
def test_the_script_runs_and_draws(gpt, device, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: gradhook[demo]")
    picture = tmp_path / "picture.png"
    small = ["--width", "16", "--layers", "1", "--steps", "3", "--characters", "20"]
    assert gpt.main([*small, "--device", device, "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and f"on {device}" in capsys.readouterr().out
    assert (FOLDER / "char_gpt.png").stat().st_size < 60_000
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # without --output it isn't needed
    assert gpt.main([*small, "--device", device]) == 0
