"""The names that the generated text of recorders uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradhook.autograd import saved
from gradhook.autograd.carriers import ARRAY_MODULES
from gradhook.autograd.compiled import blank
from gradhook.autograd.graph import TensorMeta
from gradhook.autograd.node_streams import note_stream
from gradhook.autograd.numbering import numbering
from gradhook.autograd.watch import watched
from gradhook.modes import get_modes
from gradhook.native.buffers import LARGE

VIEWS = ("attach", "derive", "edge_of", "refresh", "view_outputs")
OPERANDS = (
    "array_of", "as_array", "elsewhere", "on_device", "operands", "operator_operands", "recover",
    "refuse_dtype", "with_number",
)  # fmt: skip


def runtime_scope() -> dict[str, Any]:
    """The names that generated text uses."""
    from gradhook.autograd import binding, operands, views

    return {
        "MODULES": ARRAY_MODULES,
        "TensorMeta": TensorMeta,
        "pack": tuple.__new__,
        "Tensor": binding.Binding.tensor,
        "get_modes": get_modes,
        "new": blank,
        "seq": numbering.draw,
        "make": binding.make,
        "ndarray": np.ndarray,
        "LARGE": LARGE,
        "F4": np.dtype("f4"),
        "F8": np.dtype("f8"),
        "note_stream": note_stream,
        "mark_inference": binding.mark_inference,
        "watched": watched,
        **{n: getattr(operands, n) for n in OPERANDS},
        **{n: getattr(views, n) for n in VIEWS},
        **{n: getattr(saved, n) for n in ("save_all", "save_optional")},
    }
