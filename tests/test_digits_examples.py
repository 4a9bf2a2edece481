"""The digits network learns, comes back from its checkpoint, and its heat maps are Grad-CAM's."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from example_scripts import FOLDER, example

import gradhook
from gradhook import nn
from gradhook.utils.data import Subset

pytest.importorskip("sklearn", reason="the digits need scikit-learn: gradhook[demo]")
digits_cnn, grad_cam = example("digits_cnn"), example("grad_cam")


@pytest.fixture
def device():
    """Where tensors lie that name no device: on CUDA with --device cuda."""
    return gradhook.empty(0).device.type


@pytest.fixture(scope="module")
def trained():
    """The network after a whole training, and the test images."""
    gradhook.manual_seed(0)
    training, test = digits_cnn.load()
    model = digits_cnn.DigitsNet().to("cpu")
    losses = digits_cnn.train(model, training)
    return model, test, losses


@pytest.mark.cpu_only(reason="a training is 100,000 launches")
def test_the_network_reads_97_percent_of_the_test_digits_also_from_its_checkpoint(
    trained, tmp_path
):
    model, test, losses = trained
    images, labels, found = digits_cnn.probabilities(model, test)
    assert images.shape == (360, 8, 8) and np.abs(found.sum(1) - 1).max() < 1e-5
    assert (found.argmax(1) == labels).mean() >= 0.97
    assert losses[0] > 2 and np.mean(losses[-20:]) < 0.2
    gradhook.save(model.state_dict(), tmp_path / "digits.pt")
    again = digits_cnn.reloaded(tmp_path / "digits.pt", "cpu")
    np.testing.assert_array_equal(digits_cnn.probabilities(again, test)[2], found)


@pytest.mark.cpu_only(reason="a training is 100,000 launches")
def test_the_hottest_places_are_those_that_the_network_needs(trained):
    model, test, _ = trained
    images, labels, _ = digits_cnn.probabilities(model, test)
    images, labels = gradhook.from_numpy(images[:, None]), gradhook.from_numpy(labels)
    _, heat = grad_cam.looked_at(model, model.features, images)
    gradhook.manual_seed(0)

    def right(order):
        read = grad_cam.readings(model, images, order, 16)
        return (read == labels).double().mean().item()

    hottest, coldest = right(heat[:, 0]), right(-heat[:, 0])
    assert hottest + 0.1 < right(gradhook.rand_like(heat[:, 0])) < coldest - 0.1


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(digits_cnn, "BATCH", 8)


def test_train_and_test_share_no_image_and_a_seed_gives_the_same_losses(device, small_batches):
    training, test = digits_cnn.load()
    assert not set(training.indices) & set(test.indices)
    assert len(set(training.indices) | set(test.indices)) == 1797
    few, runs = Subset(training, range(16)), []
    for seed in (1, 1, 2):
        gradhook.manual_seed(0)
        runs.append(digits_cnn.train(digits_cnn.DigitsNet().to(device), few, 1, seed))
    assert runs[0] == runs[1] != runs[2] and len(runs[0]) == 2


def test_no_training_step_waits_for_the_device(device, small_batches, device_counters):
    training, _ = digits_cnn.load()
    model = digits_cnn.DigitsNet().to(device)
    counts = []
    for batches in (1, 3):
        few = Subset(training, range(8 * batches))
        digits_cnn.train(model, few, 1)  # compiles, and loads the images
        device_counters(reset=True)
        digits_cnn.train(model, few, 1)
        counts.append(device_counters())
    assert counts[0]["d2h"] == counts[1]["d2h"] and counts[1]["launches"] > counts[0]["launches"]
    assert counts[0]["syncs"] == counts[1]["syncs"]


def images_and_network(device):
    """Some digits and a network with the means and variances of batch normalisation moved."""
    model = digits_cnn.DigitsNet().to(device).double()
    drawn = np.random.default_rng(0)
    model(gradhook.from_numpy(drawn.normal(size=(9, 1, 8, 8))).to(device))
    images = gradhook.from_numpy(drawn.uniform(size=(5, 1, 8, 8))).to(device)
    return model.eval(), images, gradhook.tensor([3, 1, 4, 1, 5], device=device)


def test_heat_maps_by_hooks_equal_those_by_explicit_gradients_of_the_feature_maps(device):
    model, images, classes = images_and_network(device)
    with grad_cam.GradCAM(model, model.features) as heat:
        found = heat(images, classes)
    maps = model.features(images).detach().requires_grad_()
    score = model.scores(maps)[gradhook.arange(5, device=device), classes].sum()
    (gradient,) = (g.cpu().numpy() for g in gradhook.autograd.grad(score, maps))
    weighted = gradient.mean((2, 3))[:, :, None, None] * maps.detach().cpu().numpy()
    expected = np.maximum(weighted.sum(1), 0)
    assert (expected > 0).any((1, 2)).all() and (expected == 0).any()
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-12, atol=1e-14)
    assert all(p.grad is None for p in model.parameters())


def test_after_a_global_mean_the_weights_are_those_of_the_last_layer(device):
    """There Grad-CAM is CAM, up to the number of places (Selvaraju et al., section 3)."""
    model, images, classes = images_and_network(device)
    with grad_cam.GradCAM(model, model.features) as heat:
        found = heat(images, classes)
    weight = model.scores[3].weight[classes].detach().cpu().numpy()
    maps = model.features(images).detach().cpu().numpy()
    expected = np.maximum(np.einsum("nk,nkyx->nyx", weight, maps) / 64, 0)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-12, atol=1e-14)


def test_maps_of_another_size_are_spread_over_the_image_and_no_hook_stays(device):
    model, images, classes = images_and_network(device)
    model = nn.Sequential(nn.MaxPool2d(2), model).eval()
    with grad_cam.GradCAM(model, model[0]) as heat:
        found = heat(images, classes)
    assert found.shape == (5, 8, 8) and (found >= 0).all()
    for layer in model.modules():
        assert not layer._forward_hooks and not layer._backward_hooks


@pytest.mark.parametrize("name", ["digits_cnn", "grad_cam"])
@pytest.mark.cpu_only(reason="an epoch is 10,000 launches")
def test_each_script_runs_and_draws(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: gradhook[demo]")
    picture = tmp_path / "picture.png"
    script = example(name)
    assert script.main(["--epochs", "1", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG") and "on cpu" in printed
    assert "SOMETHING ELSE" not in printed
    assert (FOLDER / f"{name}.png").stat().st_size < 60_000
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # without --output it isn't needed
    assert script.main(["--epochs", "1"]) == 0
