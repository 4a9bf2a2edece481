"""Linear algebra under PyTorch's names: `gradhook.linalg.solve`, `svd`, `norm`, ...

On NumPy through LAPACK, on CuPy through cuSOLVER. Float32, float64 and complex, batches in the
leading dimensions. A matrix without a result (singular, not positive definite) raises LinAlgError
on NumPy; on CuPy its result is undefined, since the device is not waited for: ask the `_ex`
functions. Source: torch.linalg.
"""

from functools import partial
from typing import Any

from gradhook.later import Later, attributes
from gradhook.ops.documentation import sourced
from gradhook.overloads import linalg_factors, linalg_ldl, linalg_lu, linalg_norms, linalg_solving
from gradhook.overloads.arguments import tensors_only
from gradhook.overloads.linalg_checks import LinAlgError as LinAlgError
from gradhook.overloads.out import has_out, with_out


def _taken(module: Any, name: str) -> Any:
    path = f"linalg.{name}"
    return (with_out if has_out(path) else tensors_only)(getattr(module, name), path)


_later = Later()
for _module in (linalg_factors, linalg_ldl, linalg_lu, linalg_norms, linalg_solving):
    sourced(((_name, getattr(_module, _name)) for _name in _module.LINALG), "linalg.")
    for _name in _module.LINALG:
        _later.put(_name, partial(_taken, _module, _name))
__getattr__, __dir__ = attributes(globals(), _later)
__all__ = ["LinAlgError", *_later]
