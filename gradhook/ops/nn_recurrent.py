"""The steps of a recurrent layer over a whole sequence as one operation."""

from __future__ import annotations

from typing import Any

from gradhook.ops.table import composite, op

Array = Any


@composite(method=False)
def lstm_sequence_vjp(
    xp: Any,
    by_h: Array,
    by_c: Array,
    x: Array,
    h: Array,
    c: Array,
    weight: Array,
    weight_hh: Array,
    bias: Array | None,
    hidden: Array,
    cells: Array,
    activated: Array,
    *,
    needs: tuple[bool, ...],
) -> tuple[Array | None, ...]:
    """The gradients of lstm_sequence for its inputs; hidden, cells, activated: its results. needs:
    of which inputs; others may be None. Result: shapes of the inputs.

    The gates are computed again, as `activated` is no function of the inputs to a second
    derivative; a kernel on arrays, where nothing is recorded, reads them from it.
    """
    n = c.shape[-1]
    before = xp.concat(xp.expand_dims(h, axis=0), hidden, axis=0)
    before = xp.slice_view(before, index=(slice(0, -1),))
    older = xp.concat(xp.expand_dims(c, axis=0), cells, axis=0)
    older = xp.slice_view(older, index=(slice(0, -1),))
    gates = xp.linear(x, weight, bias) + xp.linear(before, weight_hh)
    parts = xp.split(gates, sizes=(n, n, n, n), axis=-1)
    i, f, o = (xp.sigmoid(parts[k]) for k in (0, 1, 3))
    g, seen = xp.tanh(parts[2]), xp.tanh(cells)
    slopes = (
        g * (i * (1 - i)),
        older * (f * (1 - f)),
        i * (1 - xp.square(g)),
        seen * (o * (1 - o)),
        o * (1 - xp.square(seen)),
        f,
        by_h,
        by_c,
    )
    steps = zip(*(xp.unbind(s, axis=0) for s in slopes), strict=True)
    found: list[Array] = []
    later_h, later_c = None, None
    for of_i, of_f, of_g, of_o, of_seen, kept, g_h, g_c in reversed(list(steps)):
        g_h = g_h + later_h if found else g_h
        g_c = g_h * of_seen + (g_c + later_c if found else g_c)
        by_gates = xp.concat(g_c * of_i, g_c * of_f, g_c * of_g, g_h * of_o, axis=-1)
        later_h, later_c = xp.linear_input(by_gates, weight_hh), g_c * kept
        found.append(by_gates)
    by = xp.stack(*found[::-1], axis=0)
    return (
        xp.linear_input(by, weight) if needs[0] else None,
        later_h,
        later_c,
        xp.linear_weight(by, x),
        xp.linear_weight(by, before),
        None if bias is None else xp.linear_bias(by),
    )


@op(
    method=False,
    promote="same",
    n_outputs=3,
    differentiable=(0, 1),
    joint={
        ("x", "h", "c", "weight", "weight_hh", "bias"): (
            lambda xp, g0, g1, x, h, c, weight, weight_hh, bias, out0, out1, out2, needs: (
                xp.lstm_sequence_vjp(
                    g0, g1, x, h, c, weight, weight_hh, bias, out0, out1, out2, needs=needs
                )
            )
        )
    },
    takes="fc",
)
def lstm_sequence(
    xp: Any,
    x: Array,
    h: Array,
    c: Array,
    weight: Array,
    weight_hh: Array,
    bias: Array | None = None,
) -> tuple[Array, Array, Array]:
    """All steps of an LSTM layer.

    x: (length, batch, features); h, c: (batch, hidden), the states before; weight: (4 * hidden,
    features), weight_hh: (4 * hidden, hidden), bias: (4 * hidden,) or None, gates in the order
    input, forget, cell, output. Results: h and c after each step, (length, batch, hidden), and the
    gates, (length, 4, batch, hidden), cell gate first. Source: torch.nn.LSTM, arXiv:1402.1128.
    """
    n = c.shape[-1]
    outputs, cells, gates = [], [], []
    for row in x:
        a = xp.dot(row, weight.T) + xp.dot(h, weight_hh.T)
        a = a if bias is None else a + bias
        i, f, o = (1 / (1 + xp.exp(-a[:, k * n : (k + 1) * n])) for k in (0, 1, 3))
        g = xp.tanh(a[:, 2 * n : 3 * n])
        c = f * c + i * g
        h = o * xp.tanh(c)
        outputs.append(h)
        cells.append(c)
        gates.append(xp.stack((g, i, f, o)))
    return xp.stack(outputs), xp.stack(cells), xp.stack(gates)
