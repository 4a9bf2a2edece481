"""Imports every family of ops once, so that importing this module fills the table.

A new family is named here; tests/test_formulas.py fails when one is missing.
"""

from gradhook.ops import (
    activation as activation,
    arithmetic as arithmetic,
    comparison as comparison,
    complex as complex,
    cumulative as cumulative,
    diagonals as diagonals,
    einsum as einsum,
    elementwise as elementwise,
    exponential as exponential,
    indexing as indexing,
    joining as joining,
    linalg as linalg,
    nn_activation as nn_activation,
    nn_conv as nn_conv,
    nn_embedding as nn_embedding,
    nn_linear as nn_linear,
    nn_loss as nn_loss,
    nn_norm as nn_norm,
    nn_pad as nn_pad,
    nn_pool as nn_pool,
    order as order,
    reduction as reduction,
    scatter as scatter,
    scatter_reduce as scatter_reduce,
    selection as selection,
    shape as shape,
    special as special,
    trigonometric as trigonometric,
)
