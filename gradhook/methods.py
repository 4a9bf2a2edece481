"""TensorMethods: the base class that carries the Tensor methods generated from the op table
(functions.py fills it).
"""

from __future__ import annotations


class TensorMethods:
    """Methods, operators and in-place forms of the table's ops; `methods.pyi` lists them for type
    checkers.
    """

    __slots__ = ()
