"""Automatic differentiation: backward, grad, Function, grad modes, gradcheck.

Read graph.py (what a recorded operation is), then engine.py (how gradients travel), then record.py
(how operations are recorded). The engine and the recorders know no Tensor: it is handed in
(binding.py).
"""

from gradhook.autograd import graph as graph
from gradhook.autograd.api import backward as backward
from gradhook.autograd.api import grad as grad
from gradhook.autograd.engine import queue_callback as queue_callback
from gradhook.autograd.function import (
    Function as Function,
)
from gradhook.autograd.function import (
    once_differentiable as once_differentiable,
)
from gradhook.autograd.gradcheck import gradcheck as gradcheck
from gradhook.autograd.gradcheck import gradgradcheck as gradgradcheck
from gradhook.autograd.guard import detect_anomaly as detect_anomaly
from gradhook.autograd.multithreading import (
    is_multithreading_enabled as is_multithreading_enabled,
)
from gradhook.autograd.multithreading import (
    set_multithreading_enabled as set_multithreading_enabled,
)
from gradhook.autograd.saved_tensor import SavedTensor as SavedTensor
from gradhook.autograd.variable import Variable as Variable
from gradhook.modes import (
    enable_grad as enable_grad,
)
from gradhook.modes import (
    inference_mode as inference_mode,
)
from gradhook.modes import (
    no_grad as no_grad,
)
from gradhook.modes import (
    set_grad_enabled as set_grad_enabled,
)
