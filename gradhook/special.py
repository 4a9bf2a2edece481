"""Special functions under PyTorch's names: `gradhook.special.expit`, `erf`, `logit`, ... Source:
torch.special.
"""

from gradhook.functions import table_functions

globals().update(table_functions("special"))
__all__ = sorted(table_functions("special"))
