"""Special functions under PyTorch's names: `gradhook.special.expit`, `erf`, `logit`, ... Source:
torch.special.
"""

from typing import Any

from gradhook.functions import table_functions
from gradhook.overloads.arguments import tensors_only
from gradhook.overloads.arithmetic import log_softmax, mvlgamma, polygamma, softmax
from gradhook.overloads.checked import refuse
from gradhook.overloads.out import with_out
from gradhook.tensor import Tensor

_xlog1py = table_functions("special")["xlog1py"]


def xlog1py(input: Any, other: Any) -> Tensor:
    """input * log(1 + other), 0 where input is 0 (NaN where other is).

    input, other: real Tensors or numbers, shapes that broadcast. Result: floating. Errors:
    TypeError for two numbers. Source: torch.special.xlog1py.
    """
    if not isinstance(other, Tensor):
        refuse("special_xlog1py", "input", 1, input)
    result: Tensor = _xlog1py(input, other)
    return result


_FUNCTIONS = {
    **table_functions("special"),
    "xlogy": table_functions()["xlogy"],
    "xlog1py": with_out(xlog1py, "special.xlog1py"),
    "log_softmax": log_softmax,
    "multigammaln": mvlgamma,
    "polygamma": polygamma,
    "softmax": softmax,
}
_FUNCTIONS = {name: tensors_only(f, f"special.{name}") for name, f in _FUNCTIONS.items()}
globals().update(_FUNCTIONS)
__all__ = sorted(_FUNCTIONS)
