"""Device code: the sources in kernels/, how they are compiled and launched, and what they compute.

sources finds the files; launch compiles and launches and is where launches and bytes are counted;
registry says which table function has a kernel. Importing this costs no CuPy.
"""

from gradhook.kernels import (  # they register their kernels
    elements,
    host,
    host_norms,
    host_recurrent,
    joining,
    loss,
    norms,
    products,
    rows,
    scans,
    scatter,
    sparse_product,
    totals,
)
from gradhook.kernels.accumulation import accumulate
from gradhook.kernels.report import status
from gradhook.kernels.sources import names, source, where

__all__ = [
    "accumulate",
    "elements",
    "host",
    "host_norms",
    "host_recurrent",
    "joining",
    "loss",
    "names",
    "norms",
    "products",
    "rows",
    "scans",
    "scatter",
    "source",
    "sparse_product",
    "status",
    "totals",
    "where",
]
