"""Imports every family of ops once, so that importing this module fills the table.

A new family is named here; tests/test_formulas.py fails when one is missing.
"""

from gradhook.ops import (  # noqa: F401
    activation,
    arithmetic,
    comparison,
    complex,
    cumulative,
    diagonals,
    einsum,
    elementwise,
    exponential,
    indexing,
    joining,
    linalg,
    nn_activation,
    nn_conv,
    nn_embedding,
    nn_linear,
    nn_loss,
    nn_norm,
    nn_pad,
    nn_pool,
    order,
    reduction,
    scatter,
    scatter_reduce,
    selection,
    shape,
    special,
    trigonometric,
)
