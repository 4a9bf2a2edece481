"""Neural networks: Module, layers, losses, functions, initialisation. Source of names: torch.nn."""

from gradhook.nn import functional as functional
from gradhook.nn import init as init
from gradhook.nn import modules as modules
from gradhook.nn import parameter as parameter
from gradhook.nn import utils as utils
from gradhook.nn.modules import *
from gradhook.nn.parameter import Buffer as Buffer
from gradhook.nn.parameter import Parameter as Parameter
from gradhook.nn.parameter import UninitializedBuffer as UninitializedBuffer
from gradhook.nn.parameter import UninitializedParameter as UninitializedParameter
