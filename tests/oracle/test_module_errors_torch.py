"""Wrong calls of layers and losses: PyTorch's class of error and its first sentence."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn  # noqa: E402

ERRORS = {
    "glu odd": lambda n, o: n.GLU()(o(3)),
    "glu of a number": lambda n, o: n.GLU()(o(())),
    "rrelu bounds": lambda n, o: n.RReLU(3, 2)(o(3)),
    "softshrink": lambda n, o: n.Softshrink(-1.5)(o(3)),
    "celu": lambda n, o: n.CELU(0)(o(3)),
    "softmax2d": lambda n, o: n.Softmax2d()(o(2)),
    "alpha_dropout": lambda n, o: n.functional.alpha_dropout(o(3), 1.5, True),
    "feature_alpha_dropout": lambda n, o: n.FeatureAlphaDropout()(o(3)),
    "circular pad": lambda n, o: n.CircularPad1d(1)(o(2)),
    "pixel_shuffle axes": lambda n, o: n.PixelShuffle(2)(o(3, 2)),
    "pixel_shuffle channels": lambda n, o: n.PixelShuffle(2)(o(3, 2, 2)),
    "pixel_shuffle factor": lambda n, o: n.PixelShuffle(0)(o(3, 2, 2)),
    "pixel_unshuffle height": lambda n, o: n.PixelUnshuffle(2)(o(3, 3, 2)),
    "pixel_unshuffle width": lambda n, o: n.PixelUnshuffle(2)(o(3, 2, 3)),
    "channel_shuffle axes": lambda n, o: n.ChannelShuffle(1)(o(3, 2)),
    "channel_shuffle groups": lambda n, o: n.ChannelShuffle(0)(o(3, 2, 2)),
    "channel_shuffle channels": lambda n, o: n.ChannelShuffle(3)(o(3, 2, 2)),
    "bilinear batch": lambda n, o: n.functional.bilinear(o(2, 3), o(3, 4), o(5, 3, 4)),
    "bilinear first": lambda n, o: n.functional.bilinear(o(2, 3), o(2, 4), o(5, 2, 4)),
    "bilinear second": lambda n, o: n.functional.bilinear(o(2, 3), o(2, 4), o(5, 3, 3)),
    "bilinear bias": lambda n, o: n.functional.bilinear(o(2, 3), o(2, 4), o(5, 3, 4), o(4)),
    "bilinear axes": lambda n, o: n.functional.bilinear(o(2, 3), o(4), o(5, 3, 4)),
    "bilinear size": lambda n, o: n.Bilinear(0, 3, 2),
    "multi_margin empty": lambda n, o: n.MultiMarginLoss()(o(0), o(1).long()),
    "multi_margin dtype": lambda n, o: n.MultiMarginLoss()(o(2, 3), o(2)),
    "multi_margin weight": lambda n, o: n.MultiMarginLoss(weight=o(4))(o(2, 3), o(2).long()),
    "multi_margin weight axes": lambda n, o: n.MultiMarginLoss(weight=o(3, 1)),
    "multi_margin p": lambda n, o: n.MultiMarginLoss(p=3),
    "multi_margin target": lambda n, o: n.MultiMarginLoss()(o(2, 3), o(2).long() * 5),
    "multilabel_margin dtype": lambda n, o: n.MultiLabelMarginLoss()(o(2, 3), o(2, 3)),
    "cosine_embedding target": lambda n, o: n.CosineEmbeddingLoss()(o(2, 3), o(2, 3), o(2, 2)),
    "cosine_embedding numbers": lambda n, o: n.CosineEmbeddingLoss()(o(2, 3), o(2, 3), o(())),
    "cosine_embedding inputs": lambda n, o: n.CosineEmbeddingLoss()(o(3), o(3), o(2)),
    "margin_ranking axes": lambda n, o: n.MarginRankingLoss()(o(3), o(3), o(3, 1)),
    "gaussian negative": lambda n, o: n.GaussianNLLLoss()(o(3, 2), o(3, 2), -1.0),
    "gaussian negative tensor": lambda n, o: n.GaussianNLLLoss()(o(3, 2), o(3, 2), -o(3, 2)),
    "gaussian shape": lambda n, o: n.GaussianNLLLoss()(o(3, 2), o(3, 2), o(2, 2)),
    "triplet margin": lambda n, o: n.TripletMarginLoss(0),
    "triplet margin with distance": lambda n, o: n.TripletMarginWithDistanceLoss(margin=-1),
    "triplet axes": lambda n, o: n.TripletMarginWithDistanceLoss()(o(3), o(3), o(1, 3)),
    "reduction": lambda n, o: n.SoftMarginLoss(reduction="all")(o(3), o(3)),
    "unfold large": lambda n, o: n.Unfold(3)(o(1, 2, 2, 2)),
    "unfold kernel": lambda n, o: n.Unfold(0)(o(1, 2, 2, 2)),
    "unfold dilation": lambda n, o: n.Unfold(1, 0)(o(1, 2, 2, 2)),
    "unfold padding": lambda n, o: n.Unfold(1, 1, -1)(o(1, 2, 2, 2)),
    "unfold stride": lambda n, o: n.Unfold(1, 1, 0, 0)(o(1, 2, 2, 2)),
    "unfold numbers": lambda n, o: n.Unfold((2, 2, 2))(o(1, 2, 2, 2)),
    "fold features": lambda n, o: n.Fold((3, 3), 2)(o(1, 5, 4)),
    "fold blocks": lambda n, o: n.Fold((3, 3), 2)(o(1, 4, 5)),
    "fold no block": lambda n, o: n.Fold((1, 1), 2)(o(1, 4, 5)),
    "fold axes": lambda n, o: n.Fold((3, 3), 2)(o(4)),
    "fold numbers": lambda n, o: n.Fold((3, 3, 1), 2)(o(1, 4, 4)),
    "local_response_norm": lambda n, o: n.LocalResponseNorm(2)(o(2, 3)),
    "unpool index": lambda n, o: n.MaxUnpool2d(2)(o(1, 1, 2, 2), o(1, 1, 2, 2).long() * 16),
    "unpool shapes": lambda n, o: n.MaxUnpool2d(2)(o(1, 1, 2, 2), o(1, 1, 2, 3).long()),
    "unpool dtype": lambda n, o: n.MaxUnpool2d(2)(o(1, 1, 2, 2), o(1, 1, 2, 2)),
    "unpool axes": lambda n, o: n.MaxUnpool2d(2)(o(2, 2), o(2, 2).long()),
    "unpool size": lambda n, o: n.MaxUnpool2d(2)(
        o(1, 1, 2, 2), o(1, 1, 2, 2).long(), output_size=(9, 9)
    ),
    "unpool sizes": lambda n, o: n.MaxUnpool2d(2)(
        o(1, 1, 2, 2), o(1, 1, 2, 2).long(), output_size=(5,)
    ),
    "bag axes": lambda n, o: n.EmbeddingBag(3, 2)(o(1, 1, 1).long()),
    "bag offsets": lambda n, o: n.EmbeddingBag(3, 2)(o(1).long()),
    "bag offsets axes": lambda n, o: n.EmbeddingBag(3, 2)(o(1).long(), o(1, 1).long()),
    "bag offsets first": lambda n, o: n.EmbeddingBag(3, 2)(o(4).long(), o(2).long()),
    "bag mode": lambda n, o: n.EmbeddingBag(3, 2, mode="min")(o(1, 1).long()),
    "bag frequency": lambda n, o: n.EmbeddingBag(3, 2, mode="max", scale_grad_by_freq=True)(
        o(1, 1).long()
    ),
    "bag weights": lambda n, o: n.EmbeddingBag(3, 2)(o(1, 1).long(), per_sample_weights=o(1, 1)),
    "bag weights shape": lambda n, o: n.EmbeddingBag(3, 2)(
        o(1, 1).long(), per_sample_weights=o(1, 2)
    ),
    "bag padding": lambda n, o: n.EmbeddingBag(3, 2, padding_idx=3),
    "bag table": lambda n, o: n.EmbeddingBag(3, 2, _weight=o(2, 2)),
    "instance_norm axes": lambda n, o: n.InstanceNorm2d(3)(o(3, 4)),
    "instance_norm features": lambda n, o: n.InstanceNorm1d(3, affine=True)(o(2, 2, 4)),
    "lazy conv axes": lambda n, o: n.LazyConv2d(3, 3)(o(2, 2)),
    "lazy conv groups": lambda n, o: n.LazyConv1d(4, 3, groups=4)(o(1, 2, 5)),
    "lazy norm axes": lambda n, o: n.LazyBatchNorm2d()(o(2, 2, 2)),
}


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("name", ERRORS)
def test_wrong_calls_raise_torch_s_class_and_sentence(name):
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch.nn, torch.ones)
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[name](nn, gradhook.ones)
    text = str(ours.value).replace("gradhook.", "torch.")
    assert text.split("\n")[0].startswith(str(theirs.value).split("\n")[0])
