"""Utilities for parameters and gradients. Source of names: torch.nn.utils."""

from gradhook.nn.utils import parametrizations as parametrizations
from gradhook.nn.utils import parametrize as parametrize
from gradhook.nn.utils import prune as prune
from gradhook.nn.utils import rnn as rnn
from gradhook.nn.utils import stateless as stateless
from gradhook.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from gradhook.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from gradhook.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from gradhook.nn.utils.init import skip_init
from gradhook.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from gradhook.nn.utils.state_prefix import consume_prefix_in_state_dict_if_present
from gradhook.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "consume_prefix_in_state_dict_if_present",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
