"""PyTorch's import path of gradhook.nn.activation."""

from gradhook.nn.activation import ELU, GELU, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU, ReLU6, SiLU, Sigmoid, Softmax, Softmin, Softplus, Softsign, Tanh

__all__ = ['ELU', 'GELU', 'Hardtanh', 'LeakyReLU', 'LogSigmoid', 'LogSoftmax', 'Mish', 'PReLU', 'ReLU', 'ReLU6', 'SiLU', 'Sigmoid', 'Softmax', 'Softmin', 'Softplus', 'Softsign', 'Tanh']
