"""Special functions under PyTorch's names: `gradhook.special.expit`, `erf`, `logit`, ... Source:
torch.special.
"""

from gradhook.functions import table_functions
from gradhook.overloads.arithmetic import log_softmax, mvlgamma, polygamma, softmax

_FUNCTIONS = {
    **table_functions("special"),
    "log_softmax": log_softmax,
    "multigammaln": mvlgamma,
    "polygamma": polygamma,
    "softmax": softmax,
}
globals().update(_FUNCTIONS)
__all__ = sorted(_FUNCTIONS)
