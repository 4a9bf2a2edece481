"""Weighing stars: masses and velocities of bodies, from where they were seen.

Three bodies move under gravity (units in which G = 1), and only their positions were recorded. A
leapfrog integrator written over gradhook tensors says where they would have been for guessed masses
and velocities; the gradient of the squared distance goes back through all its steps, and Adam
follows it.

The arrays are the caller's, from NumPy or CuPy, and no copy of them is made: from_numpy and
from_cupy give the same memory another name, and the optimizer writes the answer to it. After `fit`
the arrays that were handed in hold the masses and velocities.

    python examples/nbody.py --output nbody.png        # on CUDA, with CuPy arrays: --device cuda
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from pictures import save_png

import gradhook as gh

Array = Any  # of NumPy or CuPy
STEP, STEPS = 0.075, 40  # units of time between two sightings, and how many there are
SOFTENING = 1e-3  # keeps the force of a close encounter finite, units of length squared


def shared(array: Array) -> gh.Tensor:
    """The array as a tensor, on the device and in the memory where it lies."""
    return gh.from_numpy(array) if isinstance(array, np.ndarray) else gh.from_cupy(array)


def accelerations(position: gh.Tensor, mass: gh.Tensor) -> gh.Tensor:
    """Of each body by all others. position: (n, 2); mass: (n,). Result: (n, 2)."""
    apart = position - position.unsqueeze(1)  # [i, j]: from body i to body j
    cubed = (apart.square().sum(-1) + SOFTENING) ** -1.5
    return (apart * (mass * cubed).unsqueeze(-1)).sum(1)


def orbit(
    position: gh.Tensor, velocity: gh.Tensor, mass: gh.Tensor, steps: int = STEPS
) -> gh.Tensor:
    """Positions after each step, (steps, n, 2): the leapfrog method, kick, drift, kick."""
    track = []
    force = accelerations(position, mass)
    for _ in range(steps):
        velocity = velocity + force * (STEP / 2)
        position = position + velocity * STEP
        force = accelerations(position, mass)
        velocity = velocity + force * (STEP / 2)
        track.append(position)
    return gh.stack(track)


def fit(
    seen: Array, position: Array, velocity: Array, mass: Array, steps: int = 300
) -> list[float]:
    """Write to `velocity` (n, 2) and `mass` (n,) what explains the sightings `seen` (STEPS, n, 2).

    All float64, NumPy or CuPy arrays of one device; `position` (n, 2) is where the bodies started.
    Result: the root mean square distance from the sightings, in units of length, at each step.
    """
    unknown = [shared(velocity).requires_grad_(), shared(mass).requires_grad_()]
    start, target = shared(position), shared(seen)
    optimizer = gh.optim.Adam(unknown, betas=(0.8, 0.9))
    distances = []
    for k in range(steps):
        optimizer.param_groups[0]["lr"] = 0.05 * 0.005 ** (k / steps)
        optimizer.zero_grad()
        loss = (orbit(start, unknown[0], unknown[1]) - target).square().sum(-1).mean()
        loss.backward()
        optimizer.step()
        distances.append(loss.item() ** 0.5)
    return distances


def truth() -> tuple[Array, Array, Array]:
    """Position and velocity, (3, 2), and mass, (3,), of a star with two heavy planets."""
    position = np.array([[0.0, 0.0], [1.0, 0.0], [-0.8, 2.05]])
    velocity = np.array([[0.046, -0.102], [0.0, 1.0], [-0.66, -0.26]])
    return position, velocity, np.array([1.0, 0.12, 0.07])


def guess() -> tuple[Array, Array]:
    """Velocity and mass where the fit starts."""
    velocity = truth()[1] + np.array([[0.1, 0.1], [0.15, -0.1], [-0.1, 0.2]])
    return velocity, np.array([0.8, 0.3, 0.3])


def predicted(position: Array, velocity: Array, mass: Array, steps: int) -> Array:
    """`orbit` of NumPy or CuPy arrays, as a NumPy array: (steps, n, 2)."""
    with gh.no_grad():
        track = orbit(shared(position), shared(velocity), shared(mass), steps)
        return track.cpu().numpy()


def draw(path: Path, velocity: Array, mass: Array, distances: list[float]) -> None:
    """Write the picture as PNG, about 1000 x 400 pixels."""
    from matplotlib.figure import Figure

    position, *true = truth()
    figure = Figure(figsize=(10, 4), dpi=100, facecolor="white", layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=[1.5, 1])
    axes = figure.add_subplot(grid[0])
    later = 5 * STEPS
    for k, colour in enumerate(("#22252A", "#D55E00", "#0072B2")):
        wrong, found, real = (
            predicted(position, values[0], values[1], later)[:, k]
            for values in (guess(), (velocity, mass), true)
        )
        axes.plot(*wrong[: 2 * STEPS].T, color=colour, linewidth=1, linestyle=":", alpha=0.6)
        name = f"mass {mass[k]:.4f} (true {true[1][k]:g})"
        axes.plot(*found.T, color=colour, linewidth=1.6, label=name)
        axes.plot(*real[STEPS::4].T, "o", color=colour, markersize=4, markerfacecolor="white")
        axes.plot(*real[:STEPS:2].T, "o", color=colour, markersize=4)
    axes.set_title(
        "orbits: first guess (dotted), fit (line), seen (full), future (open)",
        loc="left", fontsize=10, fontweight="bold",
    )  # fmt: skip
    axes.set_aspect("equal", "datalim")
    axes.legend(frameon=False, fontsize=8.5, loc="lower left")
    curve = figure.add_subplot(grid[1])
    curve.semilogy(distances, color="#D55E00", linewidth=1.8)
    curve.set_title("distance from the sightings, RMS", loc="left", fontsize=10, fontweight="bold")
    curve.set_xlabel("step of Adam", fontsize=9)
    for each in (axes, curve):
        each.grid(color="#E6E8EB", linewidth=0.7)
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=8)
    save_png(figure, path)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="masses and velocities from observed orbits")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--output", type=Path, help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    position, *true = truth()
    arrays: list[Array] = [predicted(*truth(), STEPS), position, *guess()]
    if options.device == "cuda":
        import cupy

        arrays = [cupy.asarray(array) for array in arrays]
    start = time.perf_counter()
    seen, position, velocity, mass = arrays
    distances = fit(seen, position, velocity, mass, options.steps)
    velocity, mass = shared(velocity).cpu().numpy(), shared(mass).cpu().numpy()
    print(
        f"distance {distances[0]:.3f} -> {distances[-1]:.6f}, masses {np.round(mass, 4).tolist()} "
        f"(true: {true[1].tolist()}), {time.perf_counter() - start:.1f} s on {options.device}"
    )
    if options.output:
        draw(options.output, velocity, mass, distances)
        print(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
