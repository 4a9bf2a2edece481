"""Phase retrieval: the shape of a light wave, from photographs that show only its brightness.

A camera loses the phase of the light. A laser beam with an unknown phase is photographed in a few
planes behind a pinhole; the angular spectrum method (J. W. Goodman, Introduction to Fourier Optics,
section 3.10) says what each photograph would be for a guessed phase. gradhook carries the gradient
of the mismatch back through the absolute value, the FFTs and the complex exponential, and Adam
follows it until the guess reproduces every photograph. The phase is then the hidden one, up to a
constant.

    python examples/wave_optics.py --output wave_optics.png        # on CUDA: --device cuda
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pictures import save_png

import gradhook as gh

WAVELENGTH, WINDOW = 633e-9, 512e-6  # metres
DISTANCES = (4e-3, 9e-3, 16e-3)  # metres from the pinhole to each photograph
Array = np.ndarray[Any, Any]


class Result(NamedTuple):
    """truth, found: radians, (n, n), mean 0 in the aperture; photographs: (planes, n, n);
    errors: RMS phase error in radians after each step.
    """

    aperture: Array
    truth: Array
    found: Array
    photographs: Array
    losses: list[float]
    errors: list[float]


def aperture(n: int) -> Array:
    """1 inside a round pinhole with a soft edge, else 0: (n, n)."""
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    return np.asarray(1 / (1 + np.exp((np.hypot(x, y) - 0.7) * n / 2)))


def hidden_phase(n: int) -> Array:
    """Radians, (n, n): a lens error (defocus, astigmatism, coma) and a small triangle, a nabla."""
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    bent = 3 * (x * x + y * y) + 2 * (x * x - y * y) + 3 * x * (x * x + y * y)

    def triangle(size: float) -> Array:
        inside: Array = np.minimum(
            y / size + 0.5, (1 - 2 * np.abs(x) / size - y / size) / np.sqrt(5)
        )
        return np.asarray(np.clip(inside * size * n / 4 + 0.5, 0, 1))

    return np.asarray(bent + 1.2 * (triangle(0.6) - triangle(0.3)))


def transfer(n: int) -> Array:
    """What free space does to each plane wave on its way to each photograph: (planes, n, n)."""
    k = 2 * np.pi / WAVELENGTH
    across = 2 * np.pi * np.fft.fftfreq(n, WINDOW / n)
    along = np.sqrt(k * k - across[:, None] ** 2 - across**2) - k
    return np.exp(1j * np.multiply.outer(DISTANCES, along))


def photograph(phase: gh.Tensor, opening: gh.Tensor, space: gh.Tensor) -> gh.Tensor:
    """The amplitude in every plane, (planes, n, n), of light with this phase in the pinhole."""
    field = opening * gh.exp(1j * phase)
    light: gh.Tensor = gh.fft.ifft2(gh.fft.fft2(field) * space)
    return light.abs()


def centred(phase: Array, opening: Array) -> Array:
    """No photograph shows a constant that is added to the phase, nor the phase in the dark."""
    seen = opening > 0.5
    shifted = phase - np.angle(np.mean(np.exp(1j * phase[seen])))
    return np.where(seen, shifted, 0.0)


def retrieve(n: int = 128, steps: int = 250, device: str = "cpu") -> Result:
    """Recover the hidden phase on an n x n grid, from a flat one."""
    opening, truth = aperture(n), hidden_phase(n)
    on_device = {"device": device}
    light, space = gh.as_tensor(opening, **on_device), gh.as_tensor(transfer(n), **on_device)
    with gh.no_grad():
        seen = photograph(gh.as_tensor(truth, **on_device), light, space)
    phase = gh.zeros(n, n, dtype=gh.float64, device=device, requires_grad=True)
    optimizer = gh.optim.Adam([phase], lr=0.1)
    losses, errors = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (photograph(phase, light, space) - seen).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        difference = centred(phase.detach().cpu().numpy() - truth, opening)
        errors.append(float(np.sqrt(np.mean(difference[opening > 0.5] ** 2))))
    found = centred(phase.detach().cpu().numpy(), opening)
    pictures = seen.square().cpu().numpy()
    return Result(opening, centred(truth, opening), found, pictures, losses, errors)


def draw(path: Path, result: Result) -> None:
    """Write the picture as PNG, about 1150 x 250 pixels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 2.5), dpi=100, facecolor="white", layout="constrained")
    grid = figure.add_gridspec(1, 6, width_ratios=[1, 1, 1, 1, 1, 1.5])
    dark = result.aperture <= 0.5
    edge = int(0.13 * len(dark))  # what lies outside the pinhole
    inner = np.s_[edge : len(dark) - edge, edge : len(dark) - edge]
    for column, title, phase in ((0, "hidden phase", result.truth), (4, "recovered", result.found)):
        axes = figure.add_subplot(grid[column])
        shown = np.ma.masked_array(phase, dark)[inner]
        image = axes.imshow(shown, cmap="cividis", vmin=-1.6, vmax=2.4)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set_axis_off()
        place = axes.inset_axes((0.05, -0.09, 0.9, 0.035))
        bar = figure.colorbar(image, place, orientation="horizontal", ticks=[-1, 0, 1, 2])
        bar.set_label("radians", fontsize=9)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
    for k, (light, distance) in enumerate(zip(result.photographs, DISTANCES, strict=True)):
        axes = figure.add_subplot(grid[1 + k])
        axes.imshow(light[inner], cmap="gray", vmax=np.percentile(light, 99.7))
        axes.set_title(f"seen at {1000 * distance:g} mm", loc="left", fontsize=10)
        axes.set_axis_off()
    axes = figure.add_subplot(grid[5])
    axes.semilogy(result.errors, color="#D55E00", linewidth=1.8)
    axes.set_title("error of the phase, rad RMS", loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel("step of Adam", fontsize=9)
    axes.grid(axis="y", color="#D9DCE1", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="phase retrieval by gradient descent")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--size", type=int, default=128, help="pixels of a side")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output", type=Path, help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    result = retrieve(options.size, options.steps, options.device)
    print(
        f"phase error {result.errors[0]:.3f} -> {result.errors[-1]:.4f} rad RMS in "
        f"{options.steps} steps, {time.perf_counter() - start:.1f} s on {options.device}"
    )
    if options.output:
        draw(options.output, result)
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
