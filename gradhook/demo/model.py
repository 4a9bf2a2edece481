"""The digit classifier: two convolutions and two dense layers."""

from __future__ import annotations

from collections import OrderedDict

from gradhook import nn


def classifier() -> nn.Module:
    """Images (n, 1, 8, 8) to scores (n, 10). 13,706 parameters.

    They lie on the CPU, so a seed gives the same ones whatever device they are moved to.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(1, 16, 3, padding=1, device="cpu"),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(16, 32, 3, padding=1, device="cpu"),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        dense1=nn.Linear(128, 64, device="cpu"),
        relu3=nn.ReLU(),
        dense2=nn.Linear(64, 10, device="cpu"),
    )
    return nn.Sequential(layers)


def title(module: nn.Module) -> str:
    """What a layer is, short enough for a table or a picture: "Conv2d 16→32", "ReLU"."""
    kind = type(module).__name__
    if isinstance(module, nn.Conv2d):
        return f"{kind} {module.in_channels}→{module.out_channels}"
    if isinstance(module, nn.Linear):
        return f"{kind} {module.in_features}→{module.out_features}"
    return kind
