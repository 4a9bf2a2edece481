"""Rows of ops/nn_sample.py, nn_fractional.py and nn_ctc.py; the references are plain loops."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from op_cases import apart, case, inside, integers, normal


def taken(x, index):
    out = np.zeros((*x.shape[:2], *index.shape[1:]), x.dtype)
    for place in np.ndindex(index.shape):
        if index[place] >= 0:
            for c in range(x.shape[1]):
                out[(place[0], c, *place[1:])] = x[place[0], c].ravel()[index[place]]
    return out


def put(x, index, *, shape):
    out = np.zeros(shape, x.dtype)
    for place in np.ndindex(index.shape):
        if index[place] >= 0:
            for c in range(x.shape[1]):
                out[place[0], c].reshape(-1)[index[place]] += x[(place[0], c, *place[1:])]
    return out


def index_of(*at, spatial):
    flat = np.full(at[0].shape, -1)
    for place in np.ndindex(flat.shape):
        where = [a[place] for a in at]
        if all(0 <= w < n for w, n in zip(where, spatial, strict=True)):
            flat[place] = np.ravel_multi_index([int(w) for w in where], spatial)
    return flat


def padded(x, *, size, padding, align_corners):
    """Walks to the place step by step, as a ball between walls."""
    if padding == "zeros":
        return x
    low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
    out = x.copy()
    for place in np.ndindex(x.shape):
        at = x[place]
        while padding == "reflection" and not low <= at <= high and high > low:
            at = 2 * low - at if at < low else 2 * high - at
        out[place] = min(max(at if high > low else 0, 0), size - 1)
    return out


def windows(sample, size, k, count):
    if count == 1:
        return [size - k]
    step = (size - k) / (count - 1)
    return [int((i + sample) * step) - int(sample * step) for i in range(count - 1)] + [size - k]


def fractional(x, samples, *, kernel, output):
    rank = len(kernel)
    best = np.zeros((*x.shape[:2], *output))
    where = np.zeros(best.shape, np.int64)
    for n, c in product(*map(range, x.shape[:2])):
        s = samples[n, c][::-1] if rank == 2 else samples[n, c]
        starts = [windows(*each) for each in zip(s, x.shape[2:], kernel, output, strict=True)]
        for o in product(*map(range, output)):
            first = [starts[a][o[a]] for a in range(rank)]
            places = list(product(*(range(f, f + k) for f, k in zip(first, kernel, strict=True))))
            top = max(places, key=lambda p: x[(n, c, *p)])
            best[(n, c, *o)] = x[(n, c, *top)]
            where[(n, c, *o)] = np.ravel_multi_index(top, x.shape[2:])
    return best, where


def paths(labels, time, blank):
    """Every walk of `time` states through a trellis of these labels."""
    last = len(labels) - 1
    if time == 0:
        yield from [()] * (last == 0)
        return
    for walk in product(range(len(labels)), repeat=time):
        steps = all(
            b - a in (0, 1) or (b - a == 2 and labels[b] != blank and labels[b] != labels[a])
            for a, b in pairwise(walk)
        )
        if walk[0] <= 1 and walk[-1] >= last - 1 and steps:
            yield walk


def ctc(x, labels, steps, states, *, blank=0):
    out = np.zeros(x.shape[1])
    for n in range(len(out)):
        target = labels[n, : states[n]]
        found = [
            np.exp(sum(x[t, n, target[s]] for t, s in enumerate(walk)))
            for walk in paths(target, steps[n], blank)
        ]
        out[n] = -np.log(sum(found)) if found else np.inf
    return out


def occupancy(p, labels, steps, states, *, blank=0):
    out = np.zeros(p.shape)
    for n in range(p.shape[1]):
        total = 0.0
        for walk in paths(labels[n, : states[n]], steps[n], blank):
            weight = np.exp(sum(p[t, n, s] for t, s in enumerate(walk)))
            total += weight
            for t, s in enumerate(walk):
                out[t, n, s] += weight
        out[:, n] /= total or 1
    return out


def backward(x, steps, states):
    out = np.zeros_like(x)
    for n in range(x.shape[1]):
        t, s = steps[n], states[n]
        out[:t, n, :s] = x[:t, n, :s][::-1, ::-1]
    return out


def jumps(labels, states, *, blank, turned):
    out = np.ones(labels.shape, bool)
    for n, row in enumerate(labels):
        row = row.copy()
        if turned:
            row[: states[n]] = row[: states[n]][::-1]
            row[states[n] :] = -1
        for s in range(2, len(row)):
            out[n, s] = row[s] == blank or row[s] == row[s - 2]
    return out


def log_softmax(x, *rest):
    return (x.log_softmax(2), *rest)


PLANES, POINTS = normal(2, 3, 3, 4), integers(2, 5, 2, low=-1, high=12)
PLACES = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, np.nan, 7.0])
FAR = np.array([-9.0, -4.0, -1.0, 0.0, 2.0, 3.0, 5.0, 11.0])
IMAGE, GRID = normal(2, 1, 2, 3), inside(2, 2, 1, 2) * 1.4
VOLUME, VOLUME_GRID = normal(1, 1, 3, 1, 2), inside(1, 2, 1, 1, 3) * 1.4
TARGETS = np.array([[0, 1, 0, 2, 0], [0, 1, 0, 1, 0], [0, 3, 0, 0, 0], [0, 0, 0, 0, 0]])
STEPS, STATES = np.array([4, 4, 3, 2]), np.array([5, 5, 3, 1])
TRELLIS = (TARGETS, STEPS, STATES)
SHORT = (np.array([[0, 1, 0], [0, 2, 0]]), np.array([3, 2]), np.array([3, 3]))
SAMPLES = np.random.default_rng(7).random((2, 2, 3))

ROWS = {
    "planes_take": case(PLANES, POINTS, ref=taken, complexes=True),
    "planes_put": case(
        normal(2, 3, 5, 2), POINTS, shape=(2, 3, 3, 4), ref=put, complexes=True
    ),
    "planes_nearest": case(
        PLANES, POINTS, normal(2, 2), ref=lambda x, i, _: taken(x, i), complexes=True
    ),
    "plane_index": [
        case(PLACES, PLACES[::-1].copy(), spatial=(3, 4), ref=index_of),
        case(PLACES, PLACES, PLACES, spatial=(3, 2, 4), ref=index_of),
    ],
    "clip_open": case(apart(7), high=1.0, ref=lambda x, high: x.clip(0, high)),
    "padded_place": [
        case(FAR, size=3, padding=p, align_corners=a, ref=padded)
        for p in ("zeros", "border", "reflection")
        for a in (False, True)
    ] + [case(FAR, size=1, padding="reflection", align_corners=True, ref=padded)],
    "grid_sample": [
        case(IMAGE, GRID, mode=m, padding=p, align_corners=a)
        for m in ("bilinear", "bicubic")
        for p in ("zeros", "border", "reflection")
        for a in (False, True)
    ] + [
        case(VOLUME, VOLUME_GRID, mode="bilinear", padding=p, align_corners=False)
        for p in ("zeros", "reflection")
    ] + [
        case(IMAGE, GRID, mode="nearest", padding="border", align_corners=True, constant=(1,)),
        case(VOLUME, VOLUME_GRID, mode="nearest", padding="zeros", align_corners=False),
    ],
    "fractional_pool": [
        case(apart(2, 2, 5, 6), SAMPLES[..., :2].copy(), kernel=(2, 3), output=(3, 2),
             ref=fractional, constant=(1,), after=lambda out: out[0]),
        case(apart(2, 2, 3, 4, 5), SAMPLES, kernel=(2, 1, 2), output=(1, 3, 4),
             ref=fractional, constant=(1,), after=lambda out: out[0]),
    ],
    "path_reversed": case(normal(4, 4, 5), STEPS, STATES, ref=backward, complexes=True),
    "path_jumps": [
        case(TARGETS, STATES, blank=0, turned=turned, ref=jumps) for turned in (False, True)
    ],
    "path_occupancy": [
        case(normal(4, 4, 5), *TRELLIS, blank=0, ref=occupancy, constant=(0,)),
        case(normal(3, 2, 3), *SHORT, blank=0, ref=occupancy),
        case(normal(4, 1, 1), TARGETS[:1, :1], STEPS[:1], STATES[3:], blank=0, ref=occupancy),
    ],
    "path_covariance": case(
        normal(3, 2, 3), normal(3, 2, 3, seed=8), *SHORT, occupancy(normal(3, 2, 3), *SHORT),
        blank=0,
    ),
    "ctc_losses": [
        case(normal(4, 4, 4), *TRELLIS, blank=0, ref=ctc, before=log_softmax, constant=(0,)),
        case(normal(3, 4, 4), TARGETS, np.array([3, 3, 1, 0]), STATES, blank=0, ref=ctc,
             before=log_softmax),
    ],
}  # fmt: skip
