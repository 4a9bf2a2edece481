"""gradhook: PyTorch-style automatic differentiation for CuPy and NumPy arrays, with gradient hooks
that are right.
"""

from __future__ import annotations

import warnings as _warnings

# log(0) is -inf without a word, as in PyTorch: only what NumPy warns of from inside our own ops
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradhook\.")

from gradhook import dtypes as _dtypes
from gradhook.backend import device as device
from gradhook.dtypes import *
from gradhook.size import Size as Size
from gradhook.modes import (
    compat as compat,
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from gradhook.tensor import Tensor as Tensor
import gradhook.tensor_carrier
from gradhook.creation import *
from gradhook.functions import *
from gradhook.printing import set_printoptions as set_printoptions
from gradhook.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    set_rng_state as set_rng_state,
)
from gradhook.custom_ops import register_op as register_op
from gradhook.nn.functional import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    group_norm as group_norm,
    layer_norm as layer_norm,
    pdist as pdist,
    rms_norm as rms_norm,
)
import gradhook._C
import gradhook.autograd.functional  # noqa: F401 - like _C built on Tensor, so after it
from gradhook import autograd as autograd, cuda as cuda, nn as nn, optim as optim
from gradhook import device_hooks as device_hooks, hooks as hooks
from gradhook import (
    fft as fft,
    func as func,
    linalg as linalg,
    masked as masked,
    ndimage as ndimage,
    profiler as profiler,
    safetensors as safetensors,
    serialization as serialization,
    signal as signal,
    sparse as sparse,
    special as special,
    utils as utils,
)
from gradhook.serialization import load as load, save as save

bool, float, int = _dtypes.bool_, _dtypes.float32, _dtypes.int32

__version__ = "0.1.0"
