"""PyTorch's import path of the helpers for state_dicts in gradhook.nn.utils."""

from gradhook.nn.utils.state_prefix import (
    consume_prefix_in_state_dict_if_present as consume_prefix_in_state_dict_if_present,
)

__all__ = ["consume_prefix_in_state_dict_if_present"]
