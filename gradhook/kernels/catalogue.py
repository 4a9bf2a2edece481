"""Every kernel there is, for the checks that go over all of them: NVRTC, native, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from gradhook.kernels import (
    accumulation,
    elements,
    gradient,
    joining,
    loss,
    norms,
    optimizer,
    picking,
    products,
    rows,
    scans,
    scatter,
    small_product,
    sparse_product,
    totals,
)
from gradhook.kernels.gradient import Stage
from gradhook.kernels.launch import C_TYPES, General, Kernel

DTYPES = tuple(C_TYPES)
_COUNTS = (1, 2, 3, 8, 17)
# A chain with every stage that device hooks have, and one that only observes.
FULL_CHAIN = (
    Stage("scale<{F}>(g, {0})", (0.5,)),
    Stage("clip_value<{F}>(g, {0}, {1})", (-1.0, 1.0)),
    Stage("nan_to_num<{F}>(g, {0}, {1}, {2})", (0.0, 1.0, -1.0)),
    Stage(noted=True, observes=True, bins=True, decay=0.9),
    Stage("g * norm_factor<{F}>({noted}, {0})", (1.0,), noted=True),
    Stage(noted=True, observes=True),
)
CHAINS = (FULL_CHAIN[:1], FULL_CHAIN[:4], FULL_CHAIN, FULL_CHAIN[3:4])


def kernels(dtype: str) -> Iterator[Kernel]:
    """The kernels of contiguous arrays of one dtype."""
    for count in _COUNTS:
        yield accumulation.contiguous(count, dtype)
    for name in rows.BODIES:
        yield rows.row_kernel(name, dtype)
    yield rows.column_kernel(dtype)
    yield products.bias_kernel(dtype)
    yield totals.total_kernel(dtype)
    for count in (2, joining.ARRAYS_A_LAUNCH):
        yield joining.join_kernel(count, dtype)
    yield norms.layer_norm_kernel(dtype)
    for name in norms.BODIES:
        yield norms.norm_kernel(name, dtype)
    for name in scans.BODIES:
        yield scans.scan_kernel(name, dtype)
    for name in scatter.BODIES:
        yield scatter.index_kernel(name, dtype)
    for name in picking.BODIES:
        for count in range(1, picking.MOST + 1):
            yield picking.pick_kernel(name, count, dtype)
    yield small_product.product_kernel(dtype)
    for name in ("nll_loss", "cross_entropy"):
        yield loss.loss_kernel(name, dtype)
        yield loss.input_kernel(f"{name}_input", dtype)
    yield loss.shares_kernel(dtype)
    for element in (*elements.ELEMENT_KERNELS, totals.QUOTIENT):
        yield element.kernel(dtype)
    yield optimizer.fill_kernel(dtype)
    for name, (_, _, counts) in optimizer.ELEMENTWISE.items():
        for count in counts:
            yield optimizer.elementwise_kernel(name, 2 + count, dtype)
    yield optimizer.squares_kernel(dtype)
    yield optimizer.clip_kernel(dtype)


def chains(dtype: str) -> Iterator[Kernel]:
    """Kernels composed of stages; they share names, so each is a source of its own."""
    for count in (1, 8):
        for chain in CHAINS:
            forms = tuple([gradient.form(s) for s in chain])
            yield gradient.contiguous(count, dtype, forms, count > 1 or bool(chain[0].change))


def general(dtype: str) -> Iterator[General]:
    """The kernels of any layout, which CuPy generates."""
    half = C_TYPES[dtype][0] != C_TYPES[dtype][1]
    for count in (1, 7, 16):
        yield accumulation.general_text(count, half)
    for element in (*elements.ELEMENT_KERNELS, totals.QUOTIENT):
        yield element.general_text(dtype)
    for ordered in (False, True):
        yield sparse_product.product_text(half, ordered)
    yield sparse_product.sampled_text(half)
    for count in (1, 8):
        yield gradient.general_text(count, dtype, tuple([gradient.form(s) for s in FULL_CHAIN]))
