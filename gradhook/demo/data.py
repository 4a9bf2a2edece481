"""scikit-learn's handwritten digits as Tensors, split into training and test images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

import gradhook
from gradhook import Tensor

N_TEST = 360
_SPLIT_SEED = 0  # the same test images whatever seed the training has


class Digits(NamedTuple):
    """images: (n, 1, 8, 8), float32, standardised by the training images; labels: (n,), int64."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """The training images once, in random order; a last batch smaller than size is left out."""
        n = len(self.train_labels)
        order = rng.permutation(n)
        for start in range(0, n - size + 1, size):
            chosen = gradhook.from_numpy(order[start : start + size]).to(self.train_images.device)
            yield self.train_images[chosen], self.train_labels[chosen]


def load(device: str) -> Digits:
    """The 1797 digits (UCI, E. Alpaydin and C. Kaynak, 1998), which scikit-learn has on board."""
    bunch = load_digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(bunch.target))
    images = bunch.images[order, None].astype(np.float32)
    labels = bunch.target[order].astype(np.int64)
    train = images[N_TEST:]
    images = (images - train.mean()) / train.std()

    def tensor(values: np.ndarray[Any, Any]) -> Tensor:
        return gradhook.from_numpy(np.ascontiguousarray(values)).to(device)

    return Digits(
        tensor(images[N_TEST:]),
        tensor(labels[N_TEST:]),
        tensor(images[:N_TEST]),
        tensor(labels[:N_TEST]),
    )
