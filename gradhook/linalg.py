"""Linear algebra under PyTorch's names: `gradhook.linalg.solve`, `svd`, `norm`, ...

On NumPy through LAPACK, on CuPy through cuSOLVER. Float32, float64 and complex, batches in the
leading dimensions. A matrix without a result (singular, not positive definite) raises LinAlgError
on NumPy; on CuPy its result is undefined, since the device is not waited for: ask the `_ex`
functions. Source: torch.linalg.
"""

from gradhook.overloads import linalg_factors, linalg_lu, linalg_norms, linalg_solving
from gradhook.overloads.linalg_checks import LinAlgError as LinAlgError

__all__ = ["LinAlgError"]

for _module in (linalg_factors, linalg_lu, linalg_norms, linalg_solving):
    globals().update({_name: getattr(_module, _name) for _name in _module.LINALG})
    __all__ += _module.LINALG
