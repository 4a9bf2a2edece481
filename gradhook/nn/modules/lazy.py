"""PyTorch's import path of gradhook.nn.lazy."""

from gradhook.nn.lazy import LazyModuleMixin as LazyModuleMixin

__all__ = ["LazyModuleMixin"]
