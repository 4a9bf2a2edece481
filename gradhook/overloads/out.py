"""The `out=` argument: a function's result written into Tensors that the caller has.

A function of the table takes it in its generated text, another in a wrapper; both come here when it
is given. Source: PyTorch's rules for out, with its error texts as first sentences.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from gradhook import backend, dtypes, memory
from gradhook.modes import get_modes, no_grad
from gradhook.ops.table import TABLE
from gradhook.overloads.arguments import Forwarding, tensors_only
from gradhook.overloads.recorded import ops, write
from gradhook.tensor import Tensor

FUNCTIONS = frozenset(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr alias_copy all amax
    amin aminmax angle any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
    argmin argsort as_strided_copy asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bucketize
    cat ceil chain_matmul cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min
    clip column_stack complex concat concatenate conj_physical copysign cos cosh cross
    cummax cummin cumprod cumsum deg2rad detach_copy diag diagonal_copy diff digamma div
    divide dot dstack eq erf erfc erfinv exp exp2 expand_copy expm1 fix float_power floor
    floor_divide fmax fmin fmod frac frexp gather gcd ge geqrf ger greater greater_equal gt
    heaviside hstack hypot i0 index_add index_copy index_reduce index_select inner inverse
    isin isneginf isposinf kron kthvalue lcm ldexp le lerp less less_equal lgamma log log10
    log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not
    logical_or logical_xor logit logsumexp lt lu_solve lu_unpack masked_select matmul
    matrix_power max maximum mean median min minimum mm mode msort mul multinomial multiply
    mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow_copy ne neg negative
    nextafter nonzero norm normal not_equal orgqr ormqr outer permute_copy polar polygamma
    pow prod qr quantile rad2deg reciprocal remainder renorm round row_stack rsqrt scatter
    scatter_add scatter_reduce searchsorted select_copy sgn sigmoid sign signbit sin sinc
    sinh slice_copy slice_scatter slogdet softmax sort sqrt square squeeze_copy stack std
    sub subtract sum svd t_copy take take_along_dim tan tanh tensordot topk transpose_copy
    triangular_solve tril triu true_divide trunc unbind_copy unfold_copy unsqueeze_copy var
    vdot view_copy vstack where xlogy
""".split()
)
SPECIAL = frozenset(
    """
    digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr
    logit logsumexp ndtr ndtri psi round sinc xlog1py xlogy
""".split()
)
LINALG = frozenset(
    """
    cholesky cholesky_ex cond cross det eig eigh eigvals eigvalsh householder_product inv
    inv_ex ldl_factor ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve
    matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex
    solve_triangular svd svdvals tensorinv tensorsolve vecdot vector_norm
""".split()
)
# Their out says which dtype and device they make.
CREATING = ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn",
            "randperm", "zeros")  # fmt: skip
# Whose out must have the result's dtype, where others cast within a kind or to a wider one.
EXACT = frozenset(
    """
    addbmm addmm addmv amax amin aminmax argmax argmin baddbmm bmm bucketize complex cummax cummin
    dot gather index_add index_copy index_select kthvalue masked_select matmul max median min mm
    mode multinomial mv nonzero polar scatter scatter_add searchsorted sort take topk vdot
""".split()
)
# Whose out must not be an input, too: PyTorch would read what it has overwritten.
APART = EXACT | {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"}
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def has_out(path: str) -> bool:
    """Whether the function of this name takes out, e.g. "cat", "special.erf"."""
    namespace, _, name = path.rpartition(".")
    return name in {"": FUNCTIONS, "special": SPECIAL, "linalg": LINALG}.get(namespace, ())


def with_out(
    function: Callable[..., Any], path: str, write: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """`tensors_only` of the function with `out=None` as a last, keyword-only argument, where it has
    none yet. write: called with the function, its path, out and the arguments when out is given
    (`written`).
    """
    if "out" in inspect.signature(function).parameters:
        return tensors_only(function, path)
    name, forwarding = path.rpartition(".")[2], Forwarding(function, "out=None")
    forwarding.scope["written"] = write or written
    put = f"    return written(F, {path!r}, out, {forwarding.arguments})"
    made: Callable[..., Any] = forwarding.defined(name, path, ("if out is not None:", put))
    made.__doc__ = function.__doc__
    made.__module__ = "gradhook" + (f".{path.rpartition('.')[0]}" if "." in path else "")
    made.__annotations__ = {
        k: v for k, v in getattr(function, "__annotations__", {}).items() if k == "return"
    }
    return made


def written(function: Callable[..., Any], path: str, out: Any, *args: Any, **named: Any) -> Any:
    """function(*args, **named) written into out, a Tensor or one a result; returns out.

    An empty out takes the result's shape. Errors: TypeError where out is no Tensor; RuntimeError
    where something requires grad, for another device, shape or a dtype that cannot hold the result,
    memory that overlaps itself, and where out is an input of a function that does not allow it.
    """
    name = path.rpartition(".")[2]
    targets = list(out) if isinstance(out, (tuple, list)) else [out]
    for target in targets:
        if not isinstance(target, Tensor):
            kind = type(target).__name__
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {kind}")
    inputs = list(_tensors((*args, *named.values())))
    if get_modes().grad and any(t.requires_grad for t in (*inputs, *targets)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad. (call it under no_grad(), or without out)"
        )
    with no_grad():
        found = function(*args, **named)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(results) != len(targets):
            raise TypeError(
                f"{name}(): found {len(targets)} Tensors as out, expected {len(results)}"
            )
        for target, result in zip(targets, results, strict=True):
            _check(name, target, result, inputs)
        for target, result in zip(targets, results, strict=True):
            _put(target, result)
    if not isinstance(found, (tuple, list)):
        return targets[0]
    return type(found)(*targets) if hasattr(found, "_fields") else type(found)(targets)


def created(
    function: Callable[..., Any], path: str, out: Any, *args: Any, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, **named: Any,
) -> Any:  # fmt: skip
    """`written` of a function that makes tensors: what it makes has out's dtype and device.

    Errors: as written; RuntimeError for another dtype or device beside out.
    """
    if not isinstance(out, Tensor):
        kind = type(out).__name__
        raise TypeError(f"{path}(): argument 'out' must be Tensor, not {kind}")
    if dtype is not None and dtypes.of(dtype) is not out.dtype:
        raise RuntimeError(
            f"dtype {dtypes.of(dtype).title} does not match dtype of out parameter "
            f"({out.dtype.title}) ({path})"
        )
    if device is not None and backend.resolved(device) != out.device:
        raise RuntimeError(
            f"device {device} does not match device of out parameter ({out.device}) ({path})"
        )
    found = written(function, path, out, *args, dtype=out.dtype, device=out.device, **named)
    return found.requires_grad_() if requires_grad else found


def _tensors(values: tuple[Any, ...]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(tuple(value))


def _check(name: str, target: Tensor, result: Tensor, inputs: list[Tensor]) -> None:
    if target.device != result.device:
        raise RuntimeError(
            f"Expected out tensor to be on {result.device}, but got {target.device} ({name})"
        )
    if name in EXACT and target.dtype != result.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result.dtype}, but got {target.dtype} instead "
            f"({name})"
        )
    if _KINDS.get(target._a.dtype.kind, 2) < _KINDS.get(result._a.dtype.kind, 2):
        raise RuntimeError(
            f"result type {result.dtype.title} can't be cast to the desired output type "
            f"{target.dtype.title} ({name})"
        )
    if memory.has_internal_overlap(target._a):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation. "
            f"({name})"
        )
    shared = (t is target or memory.shares_memory(t._a, target._a) for t in inputs)
    if name in APART and any(shared):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor "
            "refer to a single memory location. Please clone() the tensor before performing the "
            f"operation. ({name})"
        )
    if tuple(target.shape) != tuple(result.shape) and (target.numel() or target._view is not None):
        raise RuntimeError(
            f"{name}(): out has the shape {list(target.shape)}, expected {list(result.shape)}: the "
            "memory of a tensor that has elements is not resized; pass an empty one"
        )


def _put(target: Tensor, result: Tensor) -> None:
    if tuple(target.shape) != tuple(result.shape):
        target.data = ops.cast(ops.clone(result), dtype=target._a.dtype)
    else:
        write(TABLE["copy"], target, result)
