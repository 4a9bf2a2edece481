"""Rows of the recurrent layers."""

from __future__ import annotations

import numpy as np

from op_cases import case, normal


def lstm(x, h, c, weight, weight_hh, bias=None):
    """Step by step; the gates last, the cell's first of each step."""
    outputs, cells, gates = [], [], []
    for row in x:
        a = row @ weight.T + h @ weight_hh.T + (0 if bias is None else bias)
        i, f, g, o = np.split(a, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-y)) for y in (i, f, o))
        g = np.tanh(g)
        c = f * c + i * g
        h = o * np.tanh(c)
        outputs.append(h)
        cells.append(c)
        gates.append([g, i, f, o])
    return np.array(outputs), np.array(cells), np.array(gates)


def given(length, batch, features, hidden):
    """x, h, c, weight, weight_hh, bias."""
    gates = 4 * hidden
    shapes = [(length, batch, features), (batch, hidden), (batch, hidden)]
    shapes += [(gates, features), (gates, hidden), (gates,)]
    return [normal(*shape, seed=k) for k, shape in enumerate(shapes)]


def states(found):
    """h and c of each step: the gates have no gradient."""
    return found[:2]


ROWS = {
    "lstm_sequence": [
        case(*given(3, 2, 4, 3), ref=lstm, after=states),
        case(*given(2, 2, 3, 2)[:5], None, ref=lstm, after=states),
    ],
}
