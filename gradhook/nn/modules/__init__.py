"""PyTorch's import path of all layers; each layer's home is gradhook.nn.<family>."""

from gradhook.nn import utils as utils
from gradhook.nn.modules.activation import *
from gradhook.nn.modules.adaptive import *
from gradhook.nn.modules.batchnorm import *
from gradhook.nn.modules.channelshuffle import *
from gradhook.nn.modules.container import *
from gradhook.nn.modules.conv import *
from gradhook.nn.modules.distance import *
from gradhook.nn.modules.dropout import *
from gradhook.nn.modules.flatten import *
from gradhook.nn.modules.fold import *
from gradhook.nn.modules.instancenorm import *
from gradhook.nn.modules.lazy import *
from gradhook.nn.modules.linear import *
from gradhook.nn.modules.loss import *
from gradhook.nn.modules.module import Module as Module
from gradhook.nn.modules.normalization import *
from gradhook.nn.modules.padding import *
from gradhook.nn.modules.pixelshuffle import *
from gradhook.nn.modules.pooling import *
from gradhook.nn.modules.rnn import *
from gradhook.nn.modules.sparse import *
from gradhook.nn.modules.transformer import *
from gradhook.nn.modules.upsampling import *
