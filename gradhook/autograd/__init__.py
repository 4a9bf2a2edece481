"""Automatic differentiation: backward, grad, Function, grad modes, gradcheck.

Read graph.py (what a recorded operation is), then engine.py (how gradients travel), then record.py (how operations
are recorded). The engine and the recorders know no Tensor: it is handed in (binding.py).
"""

from gradhook.autograd import graph as graph
from gradhook.autograd.api import backward as backward, grad as grad
from gradhook.autograd.engine import queue_callback as queue_callback
from gradhook.autograd.function import Function as Function, once_differentiable as once_differentiable
from gradhook.autograd.gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
from gradhook.modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
