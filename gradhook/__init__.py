"""gradhook: PyTorch-style automatic differentiation for CuPy and NumPy arrays, with gradient hooks
that are right.
"""

from __future__ import annotations

import typing as _typing
import warnings as _warnings

# log(0) is -inf without a word, as in PyTorch: only what NumPy warns of from inside our own ops
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradhook\.")

from gradhook import creation as _creation, dtypes as _dtypes
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
from gradhook.native.threads import (
    get_num_threads as get_num_threads,
    set_num_threads as set_num_threads,
)
from gradhook.tensor import Tensor as Tensor
import gradhook.tensor_carrier
from gradhook.creation import tensor as tensor  # in the place of the module, imported by now
from gradhook.functions import table_functions as _table_functions
from gradhook.printing import set_printoptions as set_printoptions
from gradhook.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    set_rng_state as set_rng_state,
)
import gradhook.autograd.functional  # noqa: F401 - built on Tensor, so after it
from gradhook import autograd as autograd, hooks as hooks, profiler as profiler
from gradhook.later import Later as _Later, attributes as _attributes

bool, float, int = _dtypes.bool_, _dtypes.float32, _dtypes.int32

if _typing.TYPE_CHECKING:
    from gradhook import (
        _C as _C,
        cpu as cpu,
        cuda as cuda,
        custom_ops as custom_ops,
        device_hooks as device_hooks,
        fft as fft,
        func as func,
        linalg as linalg,
        masked as masked,
        ndimage as ndimage,
        nn as nn,
        optim as optim,
        safetensors as safetensors,
        serialization as serialization,
        signal as signal,
        sparse as sparse,
        special as special,
        utils as utils,
    )
    from gradhook.custom_ops import register_op as register_op
    from gradhook.creation import *
    from gradhook.functions import *
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
    from gradhook.serialization import load as load, save as save
else:
    _later = _Later()
    _later.put_modules(
        __name__, "_C cpu cuda custom_ops device_hooks fft func linalg masked ndimage nn optim"
    )
    _later.put_modules(__name__, "safetensors serialization signal sparse special utils")
    _later.put_from("gradhook.creation", " ".join(_creation.__all__))
    _later.put_from("gradhook.custom_ops", "register_op")
    _later.put_from("gradhook.nn.functional", "conv1d conv2d conv3d conv_transpose1d")
    _later.put_from("gradhook.nn.functional", "conv_transpose2d conv_transpose3d group_norm")
    _later.put_from("gradhook.nn.functional", "layer_norm pdist rms_norm")
    _later.put_from("gradhook.serialization", "load save")
    __getattr__, __dir__ = _attributes(globals(), _table_functions(), _later)
    __all__ = [_name for _name in __dir__() if _name[0] != "_" and _name != "annotations"]

__version__ = "0.1.0"
