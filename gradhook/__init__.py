"""gradhook: PyTorch-style automatic differentiation for CuPy and NumPy arrays, with gradient hooks that are right."""

from __future__ import annotations

import warnings as _warnings

# log(0) is -inf without a word, as in PyTorch; only warnings that NumPy raises from inside our ops
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradhook\.")

from gradhook import autograd as autograd, backend as _backend, dtypes as _dtypes  # noqa: E402
from gradhook.backend import device as device  # noqa: E402
from gradhook.creation import *  # noqa: E402, F403
from gradhook.dtypes import *  # noqa: E402, F403
from gradhook.functions import *  # noqa: E402, F403
from gradhook.modes import (  # noqa: E402
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from gradhook.printing import set_printoptions as set_printoptions  # noqa: E402
from gradhook.random import (  # noqa: E402
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    set_rng_state as set_rng_state,
)
from gradhook.size import Size as Size  # noqa: E402
from gradhook.tensor import Tensor as Tensor  # noqa: E402
from gradhook.tensor_carrier import TENSORS as _TENSORS  # noqa: E402

from gradhook import nn as nn, optim as optim, special as special  # noqa: E402, I001 - they stand on all of the above

bool, float, int = _dtypes.bool_, _dtypes.float32, _dtypes.int32

__version__ = "0.1.0"


def is_tensor(obj: object) -> _dtypes.Truth:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)
