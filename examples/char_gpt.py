"""A small language model: a GPT learns English from Python's own manual, a character at a time.

The text is the language reference that `help("assert")` shows; it comes with Python. The model is
GPT-2 (A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019) in small:
blocks of causal attention and a perceptron, each behind a layer norm and beside a residual path,
and one matrix that both reads characters and names the next one. AdamW trains it, with a warm-up, a
cosine and clipped gradients. Then it writes: each character is drawn from what the model expects.

Every call is PyTorch's. With `torch` for `gradhook` in its imports this file runs on PyTorch, and
from the same weights it gives the same losses (tests/oracle/test_char_gpt_torch.py).

    python examples/char_gpt.py --output char_gpt.png      # a minute; on CUDA: --device cuda
"""

from __future__ import annotations

import argparse
import re
import textwrap
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import numpy as np
from pictures import save_png

import gradhook as torch
from gradhook import Tensor, nn
from gradhook.nn import functional as F

Array = np.ndarray[Any, Any]


class Size(NamedTuple):
    """context: how many characters the model looks back on; width: numbers a character."""

    context: int = 64
    width: int = 128
    heads: int = 4
    layers: int = 2


def prose() -> str:
    """The paragraphs of the manual, one a line, each once."""
    paragraphs = (" ".join(p.split()) for p in "\n\n".join(topics.values()).split("\n\n"))
    return "\n".join(dict.fromkeys(p for p in paragraphs if re.fullmatch("[A-Z][ -~]{60,}[.:]", p)))


def encode(text: str, alphabet: str) -> Array:
    """The place of each character in the alphabet: int64, (characters,)."""
    places = {character: place for place, character in enumerate(alphabet)}
    return np.array([places[character] for character in text], np.int64)


def batches(codes: Array, size: int, context: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Without end: pieces of the text, (size, context), and the same a character on."""
    rng = np.random.default_rng(seed)
    while True:
        places = rng.integers(len(codes) - context, size=(size, 1)) + np.arange(context)
        yield codes[places], codes[places + 1]


class Attention(nn.Module):
    """Each character gathers from itself and those before it what its query asks for."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.gather = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, x: Tensor) -> Tensor:
        """x and result: (batch, characters, width)."""
        b, n, width = x.shape
        heads = self.gather(x).reshape(b, n, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.out(found.transpose(1, 2).reshape(b, n, width))
        return result


class Block(nn.Module):
    """Attention, then a perceptron; each adds to the residual path."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.norm2 = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.out = nn.Linear(4 * size.width, size.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        x = x + self.out(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x


class GPT(nn.Module):
    """What follows each character: (batch, n) whole numbers -> logits, (batch, n, kinds)."""

    def __init__(self, kinds: int, size: Size) -> None:
        super().__init__()
        self.context = size.context
        self.characters = nn.Embedding(kinds, size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, kinds, bias=False)
        self.head.weight = self.characters.weight  # one matrix reads characters and names them
        for name, p in self.named_parameters():
            if p.ndim > 1:  # what adds to the residual path is the smaller, the more there are
                scale = (2 * size.layers) ** -0.5 if name.endswith("out.weight") else 1.0
                nn.init.normal_(p, std=0.05 * scale)

    def forward(self, codes: Tensor) -> Tensor:
        places = torch.arange(codes.shape[1], device=codes.device)
        x = self.characters(codes) + self.places(places)
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def mismatch(model: nn.Module, batch: tuple[Array, Array], device: str = "cpu") -> Tensor:
    """Cross-entropy of the batch, nats a character."""
    codes, following = (torch.as_tensor(part, device=device) for part in batch)
    return F.cross_entropy(model(codes).flatten(0, 1), following.flatten())


def train(
    model: nn.Module,
    data: Iterable[tuple[Array, Array]],
    steps: int,
    lr: float = 5e-3,
    device: str = "cpu",
) -> Iterator[Tensor]:
    """Take steps over batches of data; yields the loss of each, before its step."""
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), weight_decay=0.1)
    warm = max(1, steps // 20)
    rising = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm, total_iters=warm)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps - warm), lr / 50)
    rate = torch.optim.lr_scheduler.SequentialLR(optimizer, [rising, falling], [warm])
    for batch in islice(data, steps):
        loss = mismatch(model, batch, device)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        yield loss.detach()


@torch.no_grad()
def write(
    model: GPT,
    codes: Tensor,
    count: int,
    generator: torch.Generator,
    temperature: float = 0.6,
    top_k: int = 20,
) -> Tensor:
    """Go on for count characters after codes, (batch, n): (batch, n + count).

    temperature: below 1 the likely becomes likelier; top_k: only the likeliest k are drawn.
    """
    for _ in range(count):
        logits = model(codes[:, -model.context :])[:, -1] / temperature
        best = torch.topk(logits, min(top_k, logits.shape[-1]))
        drawn = torch.multinomial(best.values.softmax(-1), 1, generator=generator)
        codes = torch.cat((codes, best.indices.gather(-1, drawn)), 1)
    return codes


class Result(NamedTuple):
    """losses: nats a character, of each step's batch; held_out: at the end, of text that was kept
    from the model; text: what it wrote.
    """

    losses: list[float]
    held_out: float
    text: str


def learn(
    text: str,
    size: Size,
    steps: int,
    batch: int = 16,
    count: int = 500,
    start: str = "The ",
    device: str = "cpu",
    seed: int = 0,
) -> Result:
    """Train a model on all but the last twentieth of the text, and let it go on from start."""
    torch.manual_seed(seed)
    alphabet = "".join(sorted(set(text)))
    codes = encode(text, alphabet)
    known = len(codes) - len(codes) // 20
    model = GPT(len(alphabet), size).to(device)
    data = batches(codes[:known], batch, size.context, seed)
    losses = []
    for step, loss in enumerate(train(model, data, steps, device=device), 1):
        losses.append(loss)
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f} nats a character", flush=True)
    with torch.no_grad():
        held_out = mismatch(model, next(batches(codes[known:], 64, size.context, seed)), device)
    prompt = torch.as_tensor(encode(start, alphabet)[None], device=device)
    written = write(model, prompt, count, torch.Generator(device).manual_seed(seed))
    said = "".join(alphabet[code] for code in written[0].tolist())
    return Result(torch.stack(losses).tolist(), held_out.item(), said)


def draw(path: Path, result: Result) -> None:
    """Write the loss and the text as PNG, about 1150 x 300 pixels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 3.1), dpi=100, facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    left.plot(result.losses, color="#56B4E9", linewidth=0.6)
    width = max(1, len(result.losses) // 30)
    smooth = np.convolve(result.losses, np.full(width, 1 / width), "valid")
    left.plot(np.arange(len(smooth)) + width / 2, smooth, color="#0072B2", linewidth=1.8)
    left.plot(len(result.losses), result.held_out, "o", color="#D55E00", clip_on=False)
    label = f"text it never saw: {result.held_out:.2f} "
    place = (len(result.losses), result.held_out + 0.15)
    left.annotate(label, place, ha="right", fontsize=9, color="#D55E00")
    left.set_title("loss, nats a character", loc="left", fontsize=10, fontweight="bold")
    left.set_xlabel("step of AdamW", fontsize=9)
    left.grid(axis="y", color="#D9DCE1", linewidth=0.7)
    left.spines[["top", "right"]].set_visible(False)
    left.tick_params(labelsize=8)
    right.set_title("what it writes", loc="left", fontsize=10, fontweight="bold")
    right.set_axis_off()
    lines = [part for line in result.text.split("\n") for part in textwrap.wrap(line, 76)]
    shown = "\n".join(lines[:14]).replace("$", r"\$")
    right.text(0, 0.98, shown, va="top", fontsize=9, family="monospace", linespacing=1.4)
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="a small GPT, trained on Python's manual")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--width", type=int, default=128, help="numbers a character")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--characters", type=int, default=800, help="how many to write")
    parser.add_argument("--output", type=Path, help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    size = Size(width=options.width, layers=options.layers)
    count = options.characters
    result = learn(prose(), size, options.steps, count=count, device=options.device)
    print(result.text)
    print(
        f"loss {result.losses[0]:.2f} -> {result.losses[-1]:.2f}, held-out text "
        f"{result.held_out:.2f} nats a character; {options.steps} steps, "
        f"{time.perf_counter() - start:.0f} s on {options.device}"
    )
    if options.output:
        draw(options.output, result)
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
