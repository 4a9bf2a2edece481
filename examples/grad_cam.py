"""Grad-CAM: where a network looks, by two module hooks (R. R. Selvaraju et al., arXiv:1610.02391).

A forward hook on a layer keeps its feature maps, a full backward hook the gradient of a score in
them. The mean of a gradient says how much its map speaks for the class; the maps, weighted so,
show the places that do. The network is that of digits_cnn.py, and no line of it knows of this.

    pip install '.[demo]'
    python examples/grad_cam.py --output grad_cam.png          # on CUDA: --device cuda
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import digits_cnn
import numpy as np
from pictures import save_png

import gradhook as gh
from gradhook import nn
from gradhook.utils.data import DataLoader

Array = np.ndarray[Any, Any]


class GradCAM:
    """Heat maps of a layer of a model, as long as the `with` block lasts; all on the device.

    layer: a module in the model; its output is the feature maps, (n, channels, height, width).
    """

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        self.model = model
        self.maps, self.gradient = gh.empty(0), gh.empty(0)
        self.handles = [
            layer.register_forward_hook(self._keep_maps),
            layer.register_full_backward_hook(self._keep_gradient),
        ]

    def _keep_maps(self, layer: nn.Module, args: Any, maps: gh.Tensor) -> None:
        self.maps = maps.detach()

    def _keep_gradient(self, layer: nn.Module, grad_input: Any, grad_output: Any) -> None:
        (self.gradient,) = grad_output

    def __call__(self, images: gh.Tensor, classes: gh.Tensor) -> gh.Tensor:
        """How much each place of the images speaks for these classes.

        images: (n, channels, height, width); classes: (n,), int64. Result: (n, height, width), at
        least 0, in units of the score. Adds to no `.grad`.
        """
        images = images.detach().requires_grad_()
        scores = self.model(images).gather(1, classes.unsqueeze(1))
        gh.autograd.grad(scores.sum(), images)  # runs the hooks on its way
        weights = self.gradient.mean((2, 3), keepdim=True)
        heat = (weights * self.maps).sum(1, keepdim=True).relu()
        size = images.shape[2:]
        return nn.functional.interpolate(heat, size, mode="bilinear")[:, 0]

    def __enter__(self) -> GradCAM:
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()


def looked_at(model: nn.Module, layer: nn.Module, images: gh.Tensor) -> tuple[gh.Tensor, gh.Tensor]:
    """The two likeliest classes of each image, (n, 2), and the heat map of each of them,
    (n, 2, height, width), for a model that stands in `eval`.
    """
    with gh.no_grad():
        classes = model(images).topk(2).indices
    with GradCAM(model, layer) as heat:
        return classes, gh.stack([heat(images, classes[:, k]) for k in (0, 1)], 1)


def readings(model: nn.Module, images: gh.Tensor, heat: gh.Tensor, erased: int) -> gh.Tensor:
    """What the model reads, (n,), when the `erased` hottest places of each image are blank.

    images: (n, 1, height, width); heat: (n, height, width).
    """
    hottest = heat.flatten(1).topk(erased).indices
    blank = images.flatten(1).scatter(1, hottest, 0.0).reshape(images.shape)
    with gh.no_grad():
        read: gh.Tensor = model(blank).argmax(1)
    return read


def draw(path: Path, images: Array, classes: Array, heat: Array) -> None:
    """Write the picture as PNG: the digits, and what speaks for the first and the second guess."""
    from matplotlib.figure import Figure

    n = len(images)
    figure = Figure(figsize=(n, 3.5), dpi=100, facecolor="white", layout="constrained")
    for k in range(n):
        share = heat[k] / heat[k].max()  # one scale for both guesses
        for row in range(3):
            axes = figure.add_subplot(3, n, row * n + k + 1)
            axes.imshow(images[k], cmap="gray_r", vmax=1.6 if row else 1)
            if row:
                hot = share[row - 1]
                axes.imshow(hot, cmap="YlOrRd", alpha=0.85 * hot, interpolation="bilinear")
            title = f"why {classes[k, row - 1]}?" if row else f"read as {classes[k, 0]}"
            axes.set_title(title, fontsize=9, fontweight="normal" if row else "bold")
            axes.set_axis_off()
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="where a network looks")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--epochs", type=int, default=digits_cnn.EPOCHS)
    parser.add_argument("--output", type=Path, help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    gh.manual_seed(0)
    training, test = digits_cnn.load()
    model = digits_cnn.DigitsNet().to(options.device)
    digits_cnn.train(model, training, options.epochs)
    model.eval()
    ((images, labels),) = DataLoader(test, len(test), device=options.device)
    start = time.perf_counter()
    classes, heat = looked_at(model, model.features, images)
    found, seen = classes.cpu().numpy(), heat.cpu().numpy()
    seconds = time.perf_counter() - start
    print(f"{2 * len(images)} heat maps in {1000 * seconds:.0f} ms on {options.device}")
    places = {"none": (heat[:, 0], 0), "the hottest": (heat[:, 0], 16)}
    places |= {"random": (gh.rand_like(heat[:, 0]), 16), "the coldest": (-heat[:, 0], 16)}
    for name, (order, erased) in places.items():
        right = (readings(model, images, order, erased) == labels).double().mean().item()
        print(f"right with {erased:2} of the 64 pixels erased, {name}: {right:.0%}")
    if options.output:
        one_of_each = [labels.tolist().index(digit) for digit in range(10)]
        draw(
            options.output,
            images[:, 0].cpu().numpy()[one_of_each],
            found[one_of_each],
            seen[one_of_each],
        )
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
