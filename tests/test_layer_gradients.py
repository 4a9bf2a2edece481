"""Layers and losses that are compositions of table ops: their gradients by finite differences,
their dtype, and what is random in them. PyTorch's numbers are in tests/oracle.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradhook
import gradhook.nn.functional as F
from gradhook import nn


def double(*shape, seed=0):
    return gradhook.tensor(np.random.default_rng(seed).standard_normal(shape))


def signs(*shape):
    """An array, for tables: tensors are made in the test, on its device."""
    return np.where(np.random.default_rng(5).random(shape) > 0.5, 1.0, -1.0)


CLASSES = [0, 3, 1]
LABELS = [[0, 3, -1, 1], [-1, 2, 1, 0], [3, 3, 0, -1]]
# name: (module, shapes of its inputs, what else its call takes)
LAYERS = {
    "CELU": (lambda: nn.CELU(0.7), [(3, 4)], ()),
    "SELU": (nn.SELU, [(3, 4)], ()),
    "GLU": (nn.GLU, [(3, 4)], ()),
    "RReLU": (lambda: nn.RReLU().eval(), [(3, 4)], ()),
    "Hardshrink": (nn.Hardshrink, [(3, 4)], ()),
    "Softshrink": (nn.Softshrink, [(3, 4)], ()),
    "Tanhshrink": (nn.Tanhshrink, [(3, 4)], ()),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), [(3, 4)], ()),
    "Hardsigmoid": (nn.Hardsigmoid, [(3, 4)], ()),
    "Hardswish": (nn.Hardswish, [(3, 4)], ()),
    "Softmax2d": (nn.Softmax2d, [(3, 2, 4)], ()),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), [(2, 3, 4)], ()),
    "CircularPad1d": (lambda: nn.CircularPad1d((2, 1)), [(2, 3)], ()),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(2), [(2, 3)], ()),
    "ConstantPad1d": (lambda: nn.ConstantPad1d((2, -1), 3.0), [(2, 3)], ()),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), [(2, 4, 3)], ()),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), [(4, 2, 3)], ()),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), [(1, 4, 2)], ()),
    "bicubic": (lambda: nn.Upsample(size=(5, 3), mode="bicubic"), [(1, 2, 3, 4)], ()),
    "area": (lambda: nn.Upsample(size=(2, 3), mode="area"), [(1, 2, 3, 4)], ()),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True), [(2, 3, 4, 2)], ()),
    "Unfold": (lambda: nn.Unfold((3, 2), (1, 2), 1, 2), [(2, 2, 4, 5)], ()),
    "Fold": (lambda: nn.Fold((4, 5), 2, padding=1, stride=(1, 2)), [(1, 8, 15)], ()),
    "LPPool1d": (lambda: nn.LPPool1d(2, 3), [(2, 5)], ()),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((2, 3)), [(2, 3, 5)], ()),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3, alpha=0.3), [(2, 4, 3)], ()),
    "CosineSimilarity": (nn.CosineSimilarity, [(3, 4), (3, 4)], ()),
    "PairwiseDistance": (nn.PairwiseDistance, [(3, 4), (3, 4)], ()),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), [(5, 3), (5, 4)], ()),
    "MarginRankingLoss": (nn.MarginRankingLoss, [(3, 4), (3, 4)], (signs(3, 4),)),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, [(3, 4)], (signs(3, 4),)),
    "SoftMarginLoss": (nn.SoftMarginLoss, [(3, 4)], (signs(3, 4),)),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, [(3, 4), (3, 4)], (signs(3),)),
    "MultiMarginLoss": (lambda: nn.MultiMarginLoss(p=2), [(3, 4)], (CLASSES,)),
    "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss, [(3, 4)], (LABELS,)),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, [(3, 4), (3, 4)], ()),
    "TripletMarginLoss": (lambda: nn.TripletMarginLoss(swap=True), [(3, 4)] * 3, ()),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, [(3, 4), (3, 4)], ()),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, [(3, 4), (3, 4)], (0.5,)),
    "LazyConv2d": (lambda: nn.LazyConv2d(2, 3), [(1, 3, 4, 4)], ()),
    "LazyConvTranspose1d": (lambda: nn.LazyConvTranspose1d(2, 3), [(1, 3, 4)], ()),
    "LazyBatchNorm1d": (nn.LazyBatchNorm1d, [(4, 3)], ()),
    "LazyInstanceNorm1d": (nn.LazyInstanceNorm1d, [(3, 4)], ()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers_are_those_of_finite_differences(name):
    """Along one random direction of all inputs and parameters at once; their dtype is kept."""
    make, shapes, others = LAYERS[name]
    module = make().double()
    inputs = [double(*shape, seed=k).requires_grad_() for k, shape in enumerate(shapes)]
    rest = [v if isinstance(v, float) else gradhook.tensor(v) for v in others]
    first = module(*inputs, *rest)
    assert first.dtype == gradhook.float64
    leaves = [*inputs, *module.parameters()]
    directions = [double(*t.shape, seed=20 + k) for k, t in enumerate(leaves)]
    weight = double(*first.shape, seed=50)

    def moved(by):
        with gradhook.no_grad():
            for t, d in zip(leaves, directions, strict=True):
                t.add_(d * by)
            return (module(*inputs, *rest) * weight).sum().item()

    (first * weight).sum().backward()
    slope = sum((t.grad * d).sum().item() for t, d in zip(leaves, directions, strict=True))
    ahead = moved(1e-6)
    assert slope == pytest.approx((ahead - moved(-2e-6)) / 2e-6, rel=1e-5, abs=1e-8)


def test_alpha_dropout_keeps_mean_and_variance_and_drops_to_selu_s_lowest_value():
    gradhook.manual_seed(0)
    x = gradhook.randn(200, 500)
    y = nn.AlphaDropout(0.3)(x)
    assert abs(y.mean().item()) < 0.02 and abs(y.std().item() - 1) < 0.02
    values, counts = np.unique(y.cpu().numpy(), return_counts=True)
    assert counts.max() / y.numel() == pytest.approx(0.3, abs=0.01)
    a = 1 / np.sqrt((1.7580993**2 * 0.3 + 1) * 0.7)
    assert values[counts.argmax()] == pytest.approx(a * 1.7580993 * (0.3 - 1), rel=1e-5)


def test_feature_alpha_dropout_drops_whole_channels_and_nothing_in_evaluation():
    gradhook.manual_seed(0)
    x = gradhook.randn(20, 30, 4)
    layer = nn.FeatureAlphaDropout(0.5)
    dropped = (layer(x) == layer(x)[0, 0, 0]).cpu().numpy()
    y = layer(x).cpu().numpy()
    alike = (y == y[..., :1]).all(axis=2)
    assert 0.4 < alike.mean() < 0.6 and dropped.shape == y.shape
    assert layer.eval()(x) is x
    assert F.alpha_dropout(x, 1.0, training=True).abs().sum().item() == 0.0
    assert F.alpha_dropout(gradhook.tensor(1.0), 0.5, training=True).shape == ()


def test_rrelu_draws_a_slope_for_every_element_in_training():
    gradhook.manual_seed(0)
    x = (-gradhook.ones(1000)).requires_grad_()
    y = nn.RReLU(0.2, 0.4)(x)
    slopes = -y.detach().cpu().numpy()
    assert 0.2 <= slopes.min() < 0.21 and 0.39 < slopes.max() <= 0.4
    y.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), slopes, rtol=1e-6)


def threshold(x, inplace):
    return F.threshold(x, 0.1, 2.0, inplace)


@pytest.mark.parametrize("f", [F.celu, F.selu, F.hardsigmoid, F.hardswish, F.rrelu, threshold])
def test_in_place_activations_write_into_their_input_and_keep_its_history(f):
    leaf = double(3, 4).requires_grad_()
    x = leaf * 1
    y = f(x, inplace=True)
    assert y is x
    other = leaf.detach().requires_grad_()
    expected = f(other, inplace=False)
    y.sum().backward()
    expected.sum().backward()
    assert y.tolist() == expected.tolist() and leaf.grad.tolist() == other.grad.tolist()


def test_results_of_pixel_shuffles_never_share_memory_with_their_input():
    x = gradhook.ones(1, 2, 2)
    for f in (F.pixel_shuffle, F.pixel_unshuffle):
        f(x, 1).zero_()
    assert x.sum().item() == 4.0


def test_max_unpool_puts_maxima_where_they_were():
    x = gradhook.tensor([[[1.0, 5.0, 2.0, 3.0, 9.0]]], requires_grad=True)
    values, indices = F.max_pool1d(x, 2, return_indices=True)
    y = F.max_unpool1d(values, indices, 2, output_size=(5,))
    assert y.tolist() == [[[0.0, 5.0, 0.0, 3.0, 0.0]]]
    (y * y).sum().backward()
    assert x.grad.tolist() == [[[0.0, 10.0, 0.0, 6.0, 0.0]]]


def test_a_bag_is_the_mean_of_its_rows_without_padding_and_zero_when_empty():
    bag = nn.EmbeddingBag.from_pretrained(double(5, 3), freeze=False, padding_idx=1)
    table = bag.weight.detach()
    offsets = gradhook.tensor([0, 3, 3])
    y = bag(gradhook.tensor([2, 1, 4, 1]), offsets)
    np.testing.assert_allclose(
        y.detach().cpu().numpy()[0], ((table[2] + table[4]) / 2).cpu().numpy(), rtol=1e-12
    )
    assert y[1:].tolist() == [[0.0] * 3] * 2
    y.sum().backward()
    assert bag.weight.grad.sum(1).tolist() == [0.0, 0.0, 1.5, 0.0, 1.5]


def test_fold_is_the_transpose_of_unfold():
    x = double(2, 3, 6, 7)
    blocks = ((2, 2), (1, 2), (1, 0), (1, 2))
    y = double(*F.unfold(x, *blocks).shape, seed=1)
    left = (F.unfold(x, *blocks) * y).sum().item()
    assert left == pytest.approx((x * F.fold(y, (6, 7), *blocks)).sum().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.LazyConv2d(4, 3, groups=2), (2, 6, 5, 5)),
        (lambda: nn.LazyConv3d(4, 1, bias=False), (2, 6, 1, 2, 3)),
        (lambda: nn.LazyConvTranspose2d(4, 3, groups=2), (6, 5, 5)),
        (nn.LazyBatchNorm2d, (2, 6, 3, 3)),
        (lambda: nn.LazyInstanceNorm2d(affine=False), (2, 6, 3, 3)),
    ],
)
def test_a_lazy_layer_becomes_the_plain_one_and_keeps_what_was_loaded(make, shape):
    plain = make()
    plain(gradhook.ones(shape))
    assert type(plain) is type(make()).cls_to_become
    assert not any(isinstance(p, nn.UninitializedParameter) for p in plain.parameters())
    with gradhook.no_grad():
        for p in plain.parameters():
            p.fill_(3.0)
    loaded = make()
    loaded.load_state_dict(plain.state_dict())
    loaded.eval()(gradhook.ones(shape))
    assert type(loaded) is type(plain) and repr(loaded) == repr(plain)
    assert {k: v.tolist() for k, v in loaded.state_dict().items()} == {
        k: v.tolist() for k, v in plain.state_dict().items()
    }


def test_a_lazy_instance_norm_finds_its_features_without_a_batch_too():
    layer = nn.LazyInstanceNorm1d()
    layer(gradhook.ones(3, 5))
    assert layer.num_features == 3


def test_instance_norm_warns_of_a_size_it_does_not_need():
    with pytest.warns(UserWarning, match="size at dim=1 does not match num_features") as found:
        nn.InstanceNorm1d(3)(double(2, 4, 5))
    assert len(found) == 1


def test_instance_norm_refuses_the_statistics_of_old_state_dicts():
    state = {"running_mean": gradhook.zeros(3), "running_var": gradhook.ones(3)}
    with pytest.raises(RuntimeError, match="Unexpected running stats buffer"):
        nn.InstanceNorm1d(3).load_state_dict(state)


def test_instance_norm_is_no_batch_norm_and_bilinear_upsampling_is_an_upsample():
    from gradhook.nn.modules.batchnorm import _BatchNorm
    from gradhook.nn.modules.instancenorm import _InstanceNorm

    assert isinstance(nn.InstanceNorm1d(1), _InstanceNorm)
    assert not isinstance(nn.InstanceNorm1d(1), _BatchNorm)
    assert isinstance(nn.LazyBatchNorm1d(), _BatchNorm)
    assert isinstance(nn.UpsamplingBilinear2d(2), nn.Upsample)
