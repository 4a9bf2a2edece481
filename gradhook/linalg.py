"""Linear algebra under PyTorch's names: `gradhook.linalg.solve`, `svd`, `norm`, ...

On NumPy through LAPACK, on CuPy through cuSOLVER. Float32, float64 and complex, batches in the
leading dimensions. A matrix without a result (singular, not positive definite) raises LinAlgError
on NumPy; on CuPy its result is undefined, since the device is not waited for: ask the `_ex`
functions. Source: torch.linalg.
"""

from typing import Any

from gradhook.ops.documentation import sourced
from gradhook.overloads import linalg_factors, linalg_ldl, linalg_lu, linalg_norms, linalg_solving
from gradhook.overloads.arguments import tensors_only
from gradhook.overloads.linalg_checks import LinAlgError as LinAlgError
from gradhook.overloads.out import has_out, with_out

__all__ = ["LinAlgError"]


def _taken(module: Any, name: str) -> Any:
    function = getattr(module, name)
    sourced([(name, function)], "linalg.")
    path = f"linalg.{name}"
    return (with_out if has_out(path) else tensors_only)(function, path)


for _module in (linalg_factors, linalg_ldl, linalg_lu, linalg_norms, linalg_solving):
    sourced(((_name, getattr(_module, _name)) for _name in _module.LINALG), "linalg.")
    globals().update({_name: _taken(_module, _name) for _name in _module.LINALG})
    __all__ += _module.LINALG
