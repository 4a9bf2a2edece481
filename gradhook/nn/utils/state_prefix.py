"""The prefix that a wrapper puts before the names of a state_dict."""

from __future__ import annotations

from typing import Any


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the names of a state_dict, in place; `_metadata` too, where it has one.

    For states saved by a wrapper: prefix "module." for those of DataParallel.
    Source: torch.nn.modules.utils.
    """
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:  # its keys are of modules, so the wrapper's own has no dot
        for key in [k for k in metadata if k and f"{k}.".startswith(prefix)]:
            metadata[f"{key}."[len(prefix) :].removesuffix(".")] = metadata.pop(key)
