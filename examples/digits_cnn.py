"""Handwritten digits: a convolutional network is trained, tested, saved and loaded again.

The data are the 1797 images of 8 x 8 pixels that scikit-learn has on board (E. Alpaydin and
C. Kaynak, UCI, 1998); 360 are kept for the test. A DataLoader brings shuffled batches to the
device, AdamW follows the gradient under a one-cycle learning rate (L. N. Smith and N. Topin,
arXiv:1708.07120), batch normalisation and dropout change between training and test. Nothing in a
step waits for the device.

    pip install '.[demo]'
    python examples/digits_cnn.py --output digits_cnn.png          # on CUDA: --device cuda
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pictures import save_png

import gradhook as gh
from gradhook import nn
from gradhook.utils.data import DataLoader, TensorDataset, random_split

Array = np.ndarray[Any, Any]
BATCH, EPOCHS, RATE = 64, 8, 2e-2


def convolution(channels: int, kernels: int) -> list[nn.Module]:
    """Images of the same height and width, (n, channels, h, w) to (n, kernels, h, w)."""
    layer = nn.Conv2d(channels, kernels, 3, padding=1, bias=False)
    return [layer, nn.BatchNorm2d(kernels), nn.ReLU()]


class DigitsNet(nn.Module):
    """Images (n, 1, 8, 8) to scores (n, 10). features: their last maps, (n, 32, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *convolution(1, 16), *convolution(16, 24), *convolution(24, 32)
        )
        self.scores = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(32, 10)
        )

    def forward(self, images: gh.Tensor) -> gh.Tensor:
        """images: (n, 1, 8, 8). Result: (n, 10)."""
        scores: gh.Tensor = self.scores(self.features(images))
        return scores


def load() -> tuple[Any, Any]:
    """Training (1437) and test (360) images, float32 from 0 to 1, with labels, int64; on the CPU.

    Always the same split, whatever the seed of the training.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = gh.from_numpy((bunch.images[:, None] / 16).astype(np.float32))
    labels = gh.from_numpy(bunch.target.astype(np.int64))
    seeded = gh.Generator("cpu").manual_seed(0)
    train, test = random_split(TensorDataset(images, labels), [1437, 360], seeded)
    return train, test


def train(model: nn.Module, data: Any, epochs: int = EPOCHS, seed: int = 0) -> list[float]:
    """Train the model where it lies. Result: the loss of each step, in nats."""
    device = next(model.parameters()).device
    seeded = gh.Generator("cpu").manual_seed(seed)
    batches = DataLoader(data, BATCH, shuffle=True, drop_last=True, generator=seeded, device=device)
    optimizer = gh.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    schedule = gh.optim.lr_scheduler.OneCycleLR(optimizer, RATE, epochs * len(batches))
    loss_function = nn.CrossEntropyLoss()
    losses = []
    model.train()
    for _ in range(epochs):
        for images, labels in batches:
            loss = loss_function(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())  # stays on the device
    found: list[float] = gh.stack(losses).tolist()
    return found


def probabilities(model: nn.Module, data: Any) -> tuple[Array, Array, Array]:
    """Images (n, 8, 8), labels (n,) and the model's probabilities (n, 10), with no dropout."""
    device = next(model.parameters()).device
    model.eval()
    with gh.no_grad():
        (batch,) = DataLoader(data, len(data), device=device)
        images, labels = batch
        found = model(images).softmax(1)
    return images[:, 0].cpu().numpy(), labels.cpu().numpy(), found.cpu().numpy()


def reloaded(path: Path, device: str) -> nn.Module:
    """The network whose state was saved to `path`, ready for use on the device."""
    model = DigitsNet()
    model.load_state_dict(gh.load(path, map_location="cpu"))
    return model.to(device).eval()


def draw(path: Path, losses: list[float], images: Array, labels: Array, found: Array) -> None:
    """Write the picture as PNG: the loss, and the test images that the network is least sure of."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.5), dpi=100, facecolor="white", layout="constrained")
    grid = figure.add_gridspec(2, 10, width_ratios=[1] * 7 + [1.3] * 3)
    curve = figure.add_subplot(grid[:, 7:])
    curve.semilogy(losses, color="#D55E00", linewidth=1)
    curve.set_title("loss of each batch, nats", loc="left", fontsize=10, fontweight="bold")
    curve.set_xlabel("step of AdamW", fontsize=9)
    curve.grid(color="#E6E8EB", linewidth=0.7)
    curve.spines[["top", "right"]].set_visible(False)
    curve.tick_params(labelsize=8)
    least_sure = np.argsort(found[np.arange(len(labels)), labels])[:14]
    for k, i in enumerate(least_sure):
        axes = figure.add_subplot(grid[k // 7, k % 7])
        axes.imshow(images[i], cmap="gray_r")
        guess, colour = found[i].argmax(), "#22252A"
        if guess != labels[i]:
            colour = "#D55E00"
        axes.set_title(
            f"{labels[i]}: read {guess}, {found[i, guess]:.0%}", fontsize=8, color=colour
        )
        axes.set_axis_off()
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="a convolutional network for digits")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--checkpoint", type=Path, help="where to keep the trained network")
    parser.add_argument("--output", type=Path, help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    gh.manual_seed(0)
    training, test = load()
    model = DigitsNet().to(options.device)
    start = time.perf_counter()
    losses = train(model, training, options.epochs)
    seconds = time.perf_counter() - start
    images, labels, found = probabilities(model, test)
    right = int((found.argmax(1) == labels).sum())
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = options.checkpoint or Path(folder) / "digits.pt"
        gh.save(model.state_dict(), checkpoint)
        again = probabilities(reloaded(checkpoint, options.device), test)[2]
    print(
        f"test accuracy {right / len(labels):.4f} ({right} of {len(labels)}) after "
        f"{options.epochs} epochs, {seconds:.1f} s on {options.device}; loaded from its "
        f"checkpoint the network says {'the same' if (again == found).all() else 'SOMETHING ELSE'}"
    )
    if options.output:
        draw(options.output, losses, images, labels, found)
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
