"""PyTorch's import path of all layers; each layer's home is gradhook.nn.<family>."""

from gradhook.nn.activation import ELU, GELU, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU, ReLU6, SiLU, Sigmoid, Softmax, Softmin, Softplus, Softsign, Tanh
from gradhook.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from gradhook.nn.container import ModuleDict, ModuleList, Sequential
from gradhook.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gradhook.nn.dropout import Dropout, Dropout1d, Dropout2d
from gradhook.nn.flatten import Flatten, Unflatten
from gradhook.nn.linear import Identity, Linear
from gradhook.nn.loss import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss
from gradhook.nn.normalization import GroupNorm, LayerNorm, RMSNorm
from gradhook.nn.parameter_containers import ParameterDict, ParameterList
from gradhook.nn.pooling import AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d
from gradhook.nn.sparse import Embedding
from gradhook.nn.module import Module

__all__ = ['AdaptiveAvgPool1d', 'AdaptiveAvgPool2d', 'AdaptiveAvgPool3d', 'AvgPool1d', 'AvgPool2d', 'AvgPool3d', 'BCELoss', 'BCEWithLogitsLoss', 'BatchNorm1d', 'BatchNorm2d', 'BatchNorm3d', 'Conv1d', 'Conv2d', 'Conv3d', 'ConvTranspose1d', 'ConvTranspose2d', 'ConvTranspose3d', 'CrossEntropyLoss', 'Dropout', 'Dropout1d', 'Dropout2d', 'ELU', 'Embedding', 'Flatten', 'GELU', 'GroupNorm', 'Hardtanh', 'HuberLoss', 'Identity', 'KLDivLoss', 'L1Loss', 'LayerNorm', 'LeakyReLU', 'Linear', 'LogSigmoid', 'LogSoftmax', 'MSELoss', 'MaxPool1d', 'MaxPool2d', 'MaxPool3d', 'Mish', 'Module', 'ModuleDict', 'ModuleList', 'NLLLoss', 'PReLU', 'ParameterDict', 'ParameterList', 'RMSNorm', 'ReLU', 'ReLU6', 'Sequential', 'SiLU', 'Sigmoid', 'SmoothL1Loss', 'Softmax', 'Softmin', 'Softplus', 'Softsign', 'Tanh', 'Unflatten']
