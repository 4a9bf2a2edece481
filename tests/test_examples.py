"""The examples find the optimum, write to the caller's own arrays, and draw their pictures."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from example_scripts import FOLDER, example

import gradhook


@pytest.fixture
def device():
    """Where tensors lie that name no device: on CUDA with --device cuda."""
    return gradhook.empty(0).device.type


def test_the_hidden_phase_of_the_light_is_found(device):
    result = example("wave_optics").retrieve(48, 120, device)
    assert result.errors[0] > 0.5 and result.errors[-1] < 0.02  # radians
    assert result.losses[-1] < 1e-4 * result.losses[0]
    lit = result.aperture > 0.5
    assert lit.mean() > 0.3 and np.abs(result.found - result.truth)[lit].max() < 0.1


def test_the_photographs_are_those_of_numpy_and_no_light_is_lost(device):
    optics = example("wave_optics")
    opening, phase = optics.aperture(32), optics.hidden_phase(32)
    seen = optics.retrieve(32, 1, device).photographs
    field = opening * np.exp(1j * phase)
    expected = np.abs(np.fft.ifft2(np.fft.fft2(field) * optics.transfer(32))) ** 2
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(seen.sum((1, 2)), (opening**2).sum(), rtol=1e-12)


def arrays(nbody, device):
    """The sightings, position, velocity and mass, as a caller has them, and what is true."""
    position, velocity, mass = nbody.truth()
    seen = nbody.predicted(position, velocity, mass, nbody.STEPS)
    given = [seen, position, *nbody.guess()]
    if device == "cuda":
        import cupy

        given = [cupy.asarray(array) for array in given]
    return given, velocity, mass


@pytest.mark.cpu_only(reason="300 steps are a million launches")
def test_masses_and_velocities_are_found_in_the_callers_arrays():
    nbody = example("nbody")
    given, velocity, mass = arrays(nbody, "cpu")
    distances = nbody.fit(*given)
    assert distances[-1] < 1e-3 * distances[0]
    np.testing.assert_allclose(given[3], mass, rtol=0, atol=3e-3)
    np.testing.assert_allclose(given[2], velocity, rtol=0, atol=3e-3)


def test_the_fit_shares_the_memory_of_numpy_and_cupy_arrays(device):
    nbody = example("nbody")
    given, *_ = arrays(nbody, device)
    kept = [gradhook.as_tensor(array).cpu().numpy().copy() for array in given]
    for array in given:
        tensor = nbody.shared(array)
        found = tensor.numpy() if device == "cpu" else tensor.cupy()
        assert type(found) is type(array) and tensor.device.type == device
        assert address(found) == address(array)
    distances = nbody.fit(*given, steps=6)
    seen, position, *answer = (gradhook.as_tensor(array).cpu().numpy() for array in given)
    np.testing.assert_array_equal(seen, kept[0])
    np.testing.assert_array_equal(position, kept[1])
    assert distances[-1] < distances[0]
    for found, guess in zip(answer, kept[2:], strict=True):
        assert (found != guess).all()  # written in place


def address(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


@pytest.mark.parametrize(
    "name, small", [("wave_optics", ["--size", "24", "--steps", "3"]), ("nbody", ["--steps", "2"])]
)
def test_each_script_runs_and_draws(name, small, device, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: gradhook[demo]")
    picture = tmp_path / "picture.png"
    script = example(name)
    assert script.main([*small, "--device", device, "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and f"on {device}" in capsys.readouterr().out
    committed = FOLDER / f"{name}.png"
    assert committed.stat().st_size < 60_000
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # without --output it isn't needed
    assert script.main([*small, "--device", device]) == 0
