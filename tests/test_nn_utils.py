"""nn.utils: fusion of batch norm, modules without initialisation, norms of gradients."""

from __future__ import annotations

import pytest

import gradhook
from gradhook import nn
from gradhook.nn import utils


def settled(bn):
    """A batch norm in evaluation, with statistics and weights of its own."""
    for t in [*bn.parameters(), bn.running_mean, bn.running_var]:
        if t is not None:
            t.detach().uniform_(0.5, 2.0)
    return bn.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    ("layer", "norm", "shape", "transpose"),
    [
        (nn.Conv1d, nn.BatchNorm1d, (2, 3, 6), False),
        (nn.Conv2d, nn.BatchNorm2d, (2, 3, 5, 6), False),
        (nn.Conv3d, nn.BatchNorm3d, (2, 3, 4, 5, 3), False),
        (nn.ConvTranspose2d, nn.BatchNorm2d, (2, 3, 5, 6), True),
    ],
)
def test_a_fused_convolution_computes_what_the_two_did(layer, norm, shape, transpose, affine, bias):
    conv, bn = layer(3, 4, 2, bias=bias).eval(), settled(norm(4, affine=affine))
    x = gradhook.randn(*shape)
    fused = utils.fuse_conv_bn_eval(conv, bn, transpose)
    assert type(fused) is layer and fused is not conv
    assert gradhook.allclose(fused(x), bn(conv(x)), atol=1e-5)
    assert fused.weight.requires_grad and fused.bias.requires_grad is bias


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("features", [4, 1])
def test_a_fused_linear_layer_computes_what_the_two_did(features, affine):
    linear, bn = nn.Linear(3, 4).eval(), settled(nn.BatchNorm1d(features, affine=affine))
    fused = utils.fuse_linear_bn_eval(linear, bn)
    x = gradhook.randn(5, 3)
    expected = linear(x)
    expected = bn(expected) if features == 4 else bn(expected.reshape(-1, 1)).reshape(5, 4)
    assert gradhook.allclose(fused(x), expected, atol=1e-5)


def test_fused_weights_keep_dtypes_and_requires_grad():
    w = nn.Parameter(gradhook.ones(2, 3, dtype=gradhook.float16), requires_grad=False)
    statistics = (gradhook.zeros(2), gradhook.ones(2), 0.0, gradhook.full((2,), 2.0), None)
    weight, bias = utils.fuse_linear_bn_weights(w, None, *statistics)
    assert weight.dtype == bias.dtype == gradhook.float16
    assert not weight.requires_grad and not bias.requires_grad
    assert weight.tolist() == [[2.0] * 3] * 2 and bias.tolist() == [0.0, 0.0]


def test_only_what_evaluates_with_running_statistics_is_fused():
    conv, bn = nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1)
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        utils.fuse_conv_bn_eval(conv.eval(), bn)
    with pytest.raises(AssertionError, match="running_var must not be None"):
        utils.fuse_conv_bn_eval(conv, nn.BatchNorm1d(1, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match=r"linear.out_features=3 and bn.num_features=2"):
        utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(2).eval())


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (nn.Linear, (5, 3)),
        (nn.Conv2d, (2, 3, 2)),
        (nn.LSTM, (2, 3)),
        (nn.MultiheadAttention, (4, 2)),
    ],
)
def test_skip_init_draws_nothing(kind, sizes):
    gradhook.manual_seed(3)
    module = utils.skip_init(kind, *sizes, dtype=gradhook.float64)
    drawn = gradhook.rand(3).tolist()
    gradhook.manual_seed(3)
    assert gradhook.rand(3).tolist() == drawn
    shapes = {name: t.shape for name, t in kind(*sizes).state_dict().items()}
    assert {name: t.shape for name, t in module.state_dict().items()} == shapes
    assert all(t.dtype == gradhook.float64 for t in module.parameters())


def test_after_skip_init_failed_modules_are_initialised_again():
    with pytest.raises(ValueError):
        utils.skip_init(nn.Linear, 2, "three")
    weight = gradhook.zeros(3)
    assert nn.init.ones_(weight) is weight and weight.tolist() == [1.0, 1.0, 1.0]


def test_skip_init_takes_modules_with_a_device():
    with pytest.raises(RuntimeError, match="Expected a Module; got <class 'int'>"):
        utils.skip_init(int)
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        utils.skip_init(nn.ReLU)


def test_to_empty_keeps_the_parameters_and_their_shapes():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    weight = module[0].weight
    assert module.to_empty(device="cpu") is module and module[0].weight is weight
    assert weight.shape == (3, 2) and module[1].running_mean.shape == (3,)


def test_norms_of_gradients_of_every_order():
    tensors = [gradhook.tensor([3.0, 4.0]), gradhook.tensor([[12.0]])]
    for order, norm in ((2.0, 13.0), (1.0, 19.0), ("inf", 12.0), (float("-inf"), 3.0)):
        assert utils.get_total_norm(tensors, order).item() == pytest.approx(norm)
    assert utils.get_total_norm([]).item() == 0.0


def test_gradients_are_scaled_by_a_norm_that_is_given():
    p = gradhook.zeros(2, requires_grad=True)
    p.grad = gradhook.tensor([3.0, 4.0])
    utils.clip_grads_with_norm_([p], 1.0, utils.get_total_norm([p.grad]))
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], abs=1e-6)


def test_the_older_name_and_an_empty_generator_warn():
    p = gradhook.zeros(2, requires_grad=True)
    p.grad = gradhook.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning, match="clip_grad_norm` is now deprecated in favor of"):
        assert utils.clip_grad_norm(p, 1.0).item() == pytest.approx(5.0)
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        utils.clip_grad_norm_((p for p in ()), 1.0)
    utils.clip_grad_norm_([], 1.0)


def test_a_norm_on_the_cpu_scales_gradients_on_any_device():
    p = gradhook.zeros(2, requires_grad=True)
    p.grad = gradhook.tensor([3.0, 4.0])
    utils.clip_grads_with_norm_(p, 1.0, gradhook.tensor(5.0, device="cpu"))
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], abs=1e-6)
