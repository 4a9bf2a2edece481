"""Every sample's own gradient in one backward, by two module hooks; dp_sgd.py needs them.

A forward hook keeps a layer's input, a full backward hook gets the gradient of its output; their
product, sample by sample, is the gradient of each sample (I. Goodfellow, arXiv:1510.01799; for
convolutions G. Rochette et al., arXiv:1912.06015). The model's code does not change.
"""

from __future__ import annotations

from typing import Any

import gradhook as gh
from gradhook import nn


def is_supported(layer: nn.Module) -> bool:
    """Whether the gradient of the layer's weight is one product of its input and its gradient."""
    if isinstance(layer, nn.Conv2d):
        return (layer.groups, layer.padding_mode) == (1, "zeros") and layer.padding != "same"
    return isinstance(layer, nn.Linear)


class SampleGradients:
    """Gradients of each sample, for a model whose parameters are in Linear and Conv2d layers.

    The loss is a sum over samples, the first axis of every layer's input, and calls each layer
    once. gradients: Parameter to (n, *its shape), on its device; the backward fills it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.inputs: dict[nn.Module, gh.Tensor] = {}
        self.gradients: dict[nn.Parameter, gh.Tensor] = {}
        for layer in model.modules():
            if is_supported(layer):
                layer.register_forward_hook(self._keep_input)
                layer.register_full_backward_hook(self._multiply)
            elif next(layer.parameters(recurse=False), None) is not None:
                raise TypeError(
                    f"found {layer}, expected Linear, or Conv2d of one group with zeros around"
                )

    def _keep_input(self, layer: nn.Module, args: tuple[gh.Tensor], output: gh.Tensor) -> None:
        if output.requires_grad:
            self.inputs[layer] = args[0].detach()

    def _multiply(self, layer: Any, grad_input: Any, grad_output: tuple[gh.Tensor]) -> None:
        x, g = self.inputs.pop(layer), grad_output[0]
        if isinstance(layer, nn.Conv2d):  # a product with the patches that the kernel sees
            x = nn.functional.unfold(
                x, layer.kernel_size, layer.dilation, layer.padding, layer.stride
            )
            g = g.flatten(2)
        else:
            x, g = (t.reshape(len(t), -1, t.shape[-1]).transpose(1, 2) for t in (x, g))
        weight = gh.einsum("nop,nkp->nok", g, x)
        self.gradients[layer.weight] = weight.reshape(-1, *layer.weight.shape)
        if layer.bias is not None:
            self.gradients[layer.bias] = g.sum(2)

    def norms(self) -> gh.Tensor:
        """The length of each sample's gradient, over all parameters: (n,)."""
        squares = [g.flatten(1).square().sum(1) for g in self.gradients.values()]
        return gh.stack(squares).sum(0).sqrt()
