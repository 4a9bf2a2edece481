"""PyTorch's hook tutorials with gradhook in place of torch, and the traps their readers meet."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import gradhook as torch
import gradhook.nn as nn


class SimpleModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x)


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 5)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Square(nn.Module):
    """f(x) = x + x**2: x reaches the output by two ways."""

    def forward(self, x):
        return x + x * x


PRINTED = """\
Module: SimpleModel(
  (fc): Linear(in_features=5, out_features=3, bias=True)
)
Grad input: (tensor([[2., 2., 2., 2., 2.],
        [2., 2., 2., 2., 2.]]),)
Grad output: (tensor([[1., 1., 1.],
        [1., 1., 1.]]),)
"""


def print_gradients(module, grad_input, grad_output):
    print("Module:", module)
    print("Grad input:", grad_input)
    print("Grad output:", grad_output)


def run_simple_model(torch, nn):
    """The tutorial's first example, over either library; its weights make the values whole."""

    class SimpleModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(5, 3)

        def forward(self, x):
            return self.fc(x)

    model = SimpleModel()
    with torch.no_grad():
        model.fc.weight.copy_(torch.ones(3, 5) * torch.tensor([[0.5], [0.5], [1.0]]))
    model.register_full_backward_hook(print_gradients)
    x = torch.randn(2, 5, requires_grad=True)
    model(x).sum().backward()


@pytest.mark.parametrize("library", ["gradhook", "torch"])
def test_a_hook_on_the_whole_model_prints_as_in_the_tutorial(library, capsys):
    if library == "torch":
        pytest.importorskip("torch", reason="PyTorch's own output needs torch")
    run_simple_model(importlib.import_module(library), importlib.import_module(f"{library}.nn"))
    assert capsys.readouterr().out.replace(", device='cuda:0'", "") == PRINTED


def test_grad_output_alone_prints_as_two_lines(capsys):
    model = SimpleModel()
    model.register_full_backward_hook(lambda m, gi, go: print(go[0]))
    model(torch.randn(2, 5, requires_grad=True)).sum().backward()
    printed = capsys.readouterr().out.replace(", device='cuda:0'", "")
    assert printed == "tensor([[1., 1., 1.],\n        [1., 1., 1.]])\n"


def test_hooks_on_two_layers_fire_from_the_last_layer_to_the_first():
    model, seen = TwoLayers(), []
    names = {model.fc1: "fc1", model.fc2: "fc2"}

    def hook(module, grad_input, grad_output):
        seen.append((names[module], tuple(grad_input[0].shape), tuple(grad_output[0].shape)))

    for layer in (model.fc1, model.fc2):
        layer.register_full_backward_hook(hook)
    model(torch.randn(4, 10, requires_grad=True)).sum().backward()
    assert seen == [("fc2", (4, 5), (4, 3)), ("fc1", (4, 10), (4, 5))]


def test_a_hook_removed_through_its_handle_fires_no_more():
    model, fired = TwoLayers(), []
    handle = model.fc1.register_full_backward_hook(lambda m, gi, go: fired.append("fc1"))
    x = torch.randn(4, 10, requires_grad=True)
    model(x).sum().backward()
    handle.remove()
    model(x).sum().backward()
    assert fired == ["fc1"]
    with model.fc1.register_full_backward_hook(lambda m, gi, go: fired.append("with")):
        model(x).sum().backward()
    model(x).sum().backward()
    assert fired == ["fc1", "with"]


def test_grad_input_is_none_for_an_input_without_grad_and_the_hook_fires_all_the_same():
    model, seen = TwoLayers(), []
    model.fc1.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].shape)))
    model(torch.randn(4, 10)).sum().backward()
    assert seen == [((None,), torch.Size([4, 5]))]


@pytest.mark.parametrize("observed", [False, True])
def test_a_module_that_uses_its_input_twice_gets_the_whole_gradient(observed):
    # y = x + x**2, z = y + relu(y): dz/dx = 2 (1 + 2x) = 14 at x = 3; a known engine gives 3
    module, seen = Square(), []
    if observed:
        module.register_full_backward_hook(
            lambda m, gi, go: seen.append((gi[0].item(), go[0].item()))
        )
    x = torch.tensor(3.0, requires_grad=True)
    y = module(x)
    z = y + torch.relu(y)
    z.backward(retain_graph=True)
    assert x.grad.item() == 14
    z.backward()
    assert x.grad.item() == 28
    assert seen == [(14.0, 2.0)] * (2 * observed)


@pytest.mark.parametrize("observed", [False, True])
def test_a_residual_connection_sums_the_gradient_of_both_ways(observed):
    layer = nn.Linear(4, 4)
    if observed:
        layer.register_full_backward_hook(lambda m, gi, go: None)
    x = torch.randn(2, 4, requires_grad=True)
    h = x * 2
    (h + layer(h)).sum().backward()
    expected = 2 * (1 + layer.weight.detach().cpu().numpy().sum(axis=0))
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.tile(expected, (2, 1)), rtol=1e-6)


def test_the_output_of_a_hooked_module_can_be_written_in_place():
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    x = torch.ones(1, 3, requires_grad=True)
    y = layer(x)
    y *= 4
    y.add_(1)
    y.sum().backward()
    assert seen == [[[4.0, 4.0]]]
    expected = 4 * layer.weight.detach().cpu().numpy().sum(axis=0, keepdims=True)
    np.testing.assert_allclose(x.grad.cpu().numpy(), expected, rtol=1e-6)


def test_the_input_of_a_hooked_module_can_be_written_in_place_in_forward():
    class InPlace(nn.Module):
        def forward(self, x):
            return x.mul_(3) * x

    module, seen = InPlace(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi[0].item()))
    leaf = torch.tensor(2.0, requires_grad=True)
    x = leaf * 1
    module(x).backward()
    assert x.item() == 6 and leaf.grad.item() == 36 and seen == [36.0]


def test_a_tensor_kept_by_the_module_and_returned_stays_one_history():
    class Keeps(nn.Module):
        def forward(self, x):
            h = x * x
            self.h = h
            return h

    module, seen = Keeps(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].item()))
    x = torch.tensor(3.0, requires_grad=True)
    returned = module(x)
    assert returned is module.h
    returned.mul_(10)
    assert module.h.item() == 90
    (returned + module.h).backward()
    assert x.grad.item() == 120 and seen == [20.0]
