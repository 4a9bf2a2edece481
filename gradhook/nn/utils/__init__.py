"""Utilities for parameters and gradients."""

from gradhook.nn.utils import rnn as rnn
from gradhook.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from gradhook.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from gradhook.nn.utils.state_prefix import consume_prefix_in_state_dict_if_present

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "consume_prefix_in_state_dict_if_present",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
