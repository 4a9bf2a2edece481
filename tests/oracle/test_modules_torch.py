"""Modules beside torch's: the same weights, inputs and gradients must give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402
from gradhook import nn  # noqa: E402

LAYERS = {
    "linear": (lambda n: n.Linear(5, 3), (4, 5)),
    "linear without batch": (lambda n: n.Linear(5, 3, bias=False), (5,)),
    "conv1d": (lambda n: n.Conv1d(2, 4, 3, padding=1), (2, 2, 7)),
    "conv2d": (lambda n: n.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2), (2, 4, 7, 6)),
    "conv2d same": (lambda n: n.Conv2d(2, 3, 4, padding="same", dilation=2), (2, 2, 9, 8)),
    "conv2d reflect": (
        lambda n: n.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
        (2, 2, 5, 5),
    ),
    "conv3d": (lambda n: n.Conv3d(1, 2, 2), (1, 1, 3, 4, 3)),
    "conv_transpose2d": (
        lambda n: n.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        (2, 3, 4, 5),
    ),
    "max_pool2d": (lambda n: n.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (2, 2, 6, 7)),
    "avg_pool2d": (
        lambda n: n.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        (2, 2, 6, 7),
    ),
    "adaptive_avg_pool2d": (lambda n: n.AdaptiveAvgPool2d((3, None)), (2, 2, 7, 5)),
    "layer_norm": (lambda n: n.LayerNorm((3, 4)), (2, 3, 4)),
    "group_norm": (lambda n: n.GroupNorm(2, 4), (2, 4, 5)),
    "rms_norm": (lambda n: n.RMSNorm(4), (2, 3, 4)),
    "batch_norm1d": (lambda n: n.BatchNorm1d(3), (6, 3)),
    "batch_norm2d": (lambda n: n.BatchNorm2d(3, momentum=None), (2, 3, 4, 5)),
    "relu": (lambda n: n.ReLU(), (3, 4)),
    "leaky_relu": (lambda n: n.LeakyReLU(0.2), (3, 4)),
    "elu": (lambda n: n.ELU(1.3), (3, 4)),
    "prelu": (lambda n: n.PReLU(4), (3, 4)),
    "silu": (lambda n: n.SiLU(), (3, 4)),
    "mish": (lambda n: n.Mish(), (3, 4)),
    "gelu": (lambda n: n.GELU(), (3, 4)),
    "gelu tanh": (lambda n: n.GELU(approximate="tanh"), (3, 4)),
    "tanh": (lambda n: n.Tanh(), (3, 4)),
    "sigmoid": (lambda n: n.Sigmoid(), (3, 4)),
    "log_sigmoid": (lambda n: n.LogSigmoid(), (3, 4)),
    "softplus": (lambda n: n.Softplus(2, 1.0), (3, 4)),
    "softsign": (lambda n: n.Softsign(), (3, 4)),
    "relu6": (lambda n: n.ReLU6(), (3, 4)),
    "softmax": (lambda n: n.Softmax(dim=1), (3, 4)),
    "log_softmax": (lambda n: n.LogSoftmax(dim=-1), (3, 4)),
    "celu": (lambda n: n.CELU(0.5), (3, 4)),  # 0.7 is a float32 in torch's kernel
    "selu": (lambda n: n.SELU(), (3, 4)),
    "glu": (lambda n: n.GLU(1), (3, 4)),
    "hardshrink": (lambda n: n.Hardshrink(0.3), (3, 4)),
    "softshrink": (lambda n: n.Softshrink(0.3), (3, 4)),
    "tanhshrink": (lambda n: n.Tanhshrink(), (3, 4)),
    "threshold": (lambda n: n.Threshold(0.1, 20.0), (3, 4)),
    "hardswish": (lambda n: n.Hardswish(), (3, 4)),
    "softmax2d": (lambda n: n.Softmax2d(), (2, 3, 4, 2)),
    "constant pad": (lambda n: n.ConstantPad2d((1, -1, 2, 0), 3.5), (2, 3, 4, 5)),
    "zero pad": (lambda n: n.ZeroPad1d(2), (2, 3, 4)),
    "reflection pad": (lambda n: n.ReflectionPad2d((1, 2, 0, 1)), (2, 3, 4, 5)),
    "replication pad": (lambda n: n.ReplicationPad3d(1), (1, 2, 3, 2, 3)),
    "circular pad": (lambda n: n.CircularPad2d((1, 2, 0, 1)), (2, 3, 4, 5)),
    "channel shuffle": (lambda n: n.ChannelShuffle(2), (2, 6, 3, 2)),
    "pixel shuffle": (lambda n: n.PixelShuffle(2), (2, 8, 3, 2)),
    "pixel unshuffle": (lambda n: n.PixelUnshuffle(2), (2, 3, 4, 6)),
    "upsample": (lambda n: n.Upsample(scale_factor=2, mode="nearest"), (2, 3, 4)),
    "upsample bicubic": (lambda n: n.Upsample(size=(7, 3), mode="bicubic"), (1, 2, 4, 5)),
    "upsample bicubic by a factor": (
        lambda n: n.Upsample(scale_factor=1.7, mode="bicubic", align_corners=True),
        (1, 2, 4, 5),
    ),
    "upsample area": (lambda n: n.Upsample(size=(3, 2), mode="area"), (1, 2, 7, 5)),
    "upsampling bilinear": (lambda n: n.UpsamplingBilinear2d(scale_factor=3), (1, 2, 3, 4)),
    "upsampling nearest": (lambda n: n.UpsamplingNearest2d(size=(5, 6)), (1, 2, 3, 4)),
    "instance_norm": (
        lambda n: n.InstanceNorm2d(3, affine=True, track_running_stats=True),
        (2, 3, 4, 5),
    ),
    "instance_norm without batch": (lambda n: n.InstanceNorm1d(3), (3, 5)),
    "dropout of nothing": (
        lambda n: n.Sequential(n.Dropout3d(0.0), n.AlphaDropout(0.0)),
        (2, 3, 1, 2, 2),
    ),
    "unfold": (lambda n: n.Unfold((3, 2), dilation=(1, 2), padding=1, stride=2), (2, 3, 6, 7)),
    "fold": (lambda n: n.Fold((6, 7), (3, 2), (1, 2), (1, 0), (2, 1)), (2, 12, 15)),
    "fold without batch": (lambda n: n.Fold(4, 2), (4, 9)),
    "lp_pool1d": (lambda n: n.LPPool1d(3, 2, ceil_mode=True), (2, 3, 7)),
    "lp_pool2d": (lambda n: n.LPPool2d(2, (3, 2), stride=1), (2, 3, 5, 6)),
    "lp_pool2d inf": (lambda n: n.LPPool2d(float("inf"), 2), (2, 3, 4, 6)),
    "adaptive_max_pool1d": (lambda n: n.AdaptiveMaxPool1d(3), (2, 3, 7)),
    "adaptive_max_pool2d": (lambda n: n.AdaptiveMaxPool2d((None, 3)), (2, 3, 4, 7)),
    "adaptive_max_pool3d": (lambda n: n.AdaptiveMaxPool3d((2, 1, 5)), (2, 3, 5, 3)),
    "local_response_norm": (lambda n: n.LocalResponseNorm(3, alpha=0.3), (2, 5, 4)),
    "local_response_norm 2d": (lambda n: n.LocalResponseNorm(4, k=2.0), (2, 5, 4, 3)),
    "flatten": (lambda n: n.Flatten(), (2, 3, 4)),
    "unflatten": (lambda n: n.Unflatten(1, (2, 3)), (2, 6)),
    "deep": (
        lambda n: n.Sequential(
            n.Conv2d(1, 4, 3),
            n.ReLU(),
            n.MaxPool2d(2),
            n.Flatten(),
            n.Linear(36, 8),
            n.LayerNorm(8),
            n.Linear(8, 3),
        ),
        (2, 1, 8, 8),
    ),
}
LOSSES = {
    "mse": (lambda n: n.MSELoss(), "like"),
    "l1": (lambda n: n.L1Loss(reduction="sum"), "like"),
    "smooth_l1": (lambda n: n.SmoothL1Loss(beta=0.5), "like"),
    "huber": (lambda n: n.HuberLoss(delta=0.5), "like"),
    "bce_with_logits": (lambda n: n.BCEWithLogitsLoss(), "probabilities"),
    "kl": (lambda n: n.KLDivLoss(reduction="batchmean"), "probabilities"),
    "nll": (lambda n: n.NLLLoss(), "classes"),
    "cross_entropy": (lambda n: n.CrossEntropyLoss(), "classes"),
    "cross_entropy sum": (lambda n: n.CrossEntropyLoss(reduction="sum"), "classes"),
    "cross_entropy smooth": (
        lambda n: n.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2),
        "classes",
    ),
    "soft_margin": (lambda n: n.SoftMarginLoss(), "signs"),
    "hinge_embedding": (lambda n: n.HingeEmbeddingLoss(0.3), "signs"),
    "multi_margin": (lambda n: n.MultiMarginLoss(p=2, margin=0.7), "classes"),
    "multilabel_margin": (lambda n: n.MultiLabelMarginLoss(), "labels"),
    "multilabel_soft_margin": (lambda n: n.MultiLabelSoftMarginLoss(), "probabilities"),
    "poisson": (lambda n: n.PoissonNLLLoss(full=True), "counts"),
    "cross_entropy probabilities": (lambda n: n.CrossEntropyLoss(), "distribution"),
}


def pair(make):
    """The module of torch and ours, in float64, with torch's weights loaded into ours."""
    torch.manual_seed(0)
    theirs = make(torch.nn).double()
    ours = make(nn).double()
    state = {k: gradhook.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    return theirs, ours


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def agree(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layers_give_torch_s_outputs_and_gradients(name, training):
    make, shape = LAYERS[name]
    theirs, ours = (m.train(training) for m in pair(make))
    assert repr(ours) == repr(theirs)
    x = numbers(*shape)
    tx = torch.tensor(x, requires_grad=True)
    gx = gradhook.tensor(x, requires_grad=True)
    ty, gy = theirs(tx), ours(gx)
    agree(gy.detach().numpy(), ty.detach().numpy())
    cotangent = numbers(*ty.shape, seed=1)
    ty.backward(torch.tensor(cotangent))
    gy.backward(gradhook.tensor(cotangent))
    agree(gx.grad.numpy(), tx.grad.numpy())
    for (k, p), (_, q) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        agree(q.grad.numpy(), p.grad.numpy())
        assert k
    for k, v in theirs.state_dict().items():
        agree(ours.state_dict()[k].numpy(), v.numpy())


@pytest.mark.parametrize("name", LOSSES)
def test_losses_give_torch_s_values_and_gradients(name):
    make, kind = LOSSES[name]
    x = numbers(5, 4)
    target = {
        "like": numbers(5, 4, seed=1),
        "probabilities": np.random.default_rng(1).uniform(0.1, 0.9, (5, 4)),
        "distribution": np.random.default_rng(1).dirichlet(np.ones(4), 5),
        "classes": np.array([0, 3, 2, 1, 1]),
        "signs": np.where(numbers(5, 4, seed=1) > 0, 1.0, -1.0),
        "labels": np.array(
            [[0, 3, -1, 1], [1, -1, -1, -1], [-1, 2, 1, 0], [0, 1, 2, 3], [3, 3, -1, 0]]
        ),
        "counts": np.random.default_rng(1).poisson(2.0, (5, 4)).astype(float),
    }[kind]
    tx, gx = torch.tensor(x, requires_grad=True), gradhook.tensor(x, requires_grad=True)
    tl, gl = make(torch.nn)(tx, torch.tensor(target)), make(nn)(gx, gradhook.tensor(target))
    agree(gl.item(), tl.item())
    tl.backward()
    gl.backward()
    agree(gx.grad.numpy(), tx.grad.numpy())


@pytest.mark.parametrize(("n", "size"), [(1, 3), (2, (3, 4)), (2, 2), (3, (2, 3, 1))])
def test_indices_of_adaptive_max_pool_are_torch_s_with_ties_too(n, size):
    x = np.random.default_rng(0).integers(0, 4, (2, 3, *(5, 4, 6)[:n])).astype(float)
    theirs = getattr(torch.nn, f"AdaptiveMaxPool{n}d")(size, return_indices=True)(torch.tensor(x))
    ours = getattr(nn, f"AdaptiveMaxPool{n}d")(size, return_indices=True)(gradhook.tensor(x))
    for a, b in zip(theirs, ours, strict=True):
        assert b.tolist() == a.tolist()
    assert ours[1].dtype == gradhook.int64


@pytest.mark.parametrize(
    ("n", "form", "shape"),
    [
        (1, {"kernel_size": 2}, (2, 3, 7)),
        (2, {"kernel_size": (3, 2), "stride": 2, "padding": 1}, (2, 3, 7, 6)),
        (3, {"kernel_size": 2}, (3, 4, 5, 6)),
    ],
)
def test_max_unpool_undoes_max_pool_as_torch_s_does(n, form, shape):
    x, found = numbers(*shape), []
    for package, tensor in ((torch, torch.tensor), (gradhook, gradhook.tensor)):
        t = tensor(x, requires_grad=True)
        pool = getattr(package.nn, f"MaxPool{n}d")(return_indices=True, **form)
        unpool = getattr(package.nn, f"MaxUnpool{n}d")(**form)
        y = unpool(*pool(t), output_size=list(shape[-n:]))
        y.backward(tensor(numbers(*y.shape, seed=1)))
        found.append((repr(unpool), y.detach().numpy(), t.grad.numpy()))
    assert found[0][0] == found[1][0]
    agree(found[1][1], found[0][1])
    agree(found[1][2], found[0][2])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("form", [{}, {"padding_idx": -2}, {"include_last_offset": True}])
@pytest.mark.parametrize("offsets", [None, [0, 2, 2, 5, 8]])
def test_embedding_bags_give_torch_s_values_and_gradients(mode, form, offsets):
    theirs, ours = pair(lambda n: n.EmbeddingBag(6, 3, mode=mode, **form))
    assert repr(ours) == repr(theirs)
    indices = np.random.default_rng(0).integers(0, 6, (2, 4) if offsets is None else 8)
    given = [] if offsets is None else [np.array(offsets)]
    weights = {"per_sample_weights": numbers(*indices.shape)} if mode == "sum" else {}
    found = []
    for module, tensor in ((theirs, torch.tensor), (ours, gradhook.tensor)):
        named = {k: tensor(v, requires_grad=True) for k, v in weights.items()}
        if "padding_idx" in form and mode == "sum":  # torch has no gradient of both
            named = {}
        y = module(tensor(indices), *map(tensor, given), **named)
        y.backward(tensor(numbers(*y.shape, seed=3)))
        found.append([y.detach(), module.weight.grad, *(t.grad for t in named.values())])
    for a, b in zip(*found, strict=True):
        agree(b.numpy(), a.numpy())


PAIRED = {
    "cosine similarity": (lambda n: n.CosineSimilarity(), [(3, 4), (3, 4)]),
    "cosine similarity broadcast": (lambda n: n.CosineSimilarity(-1), [(3, 1, 4), (2, 4)]),
    "pairwise distance": (lambda n: n.PairwiseDistance(3, keepdim=True), [(3, 4), (3, 4)]),
    "bilinear": (lambda n: n.Bilinear(3, 4, 5), [(2, 6, 3), (2, 6, 4)]),
    "bilinear without bias": (lambda n: n.Bilinear(3, 4, 5, bias=False), [(3,), (4,)]),
    "triplet": (lambda n: n.TripletMarginLoss(swap=True, p=1.5), [(5, 4)] * 3),
    "triplet with distance": (
        lambda n: n.TripletMarginWithDistanceLoss(
            distance_function=lambda a, b: ((a - b) ** 2).sum(-1), reduction="none"
        ),
        [(5, 4)] * 3,
    ),
    "gaussian": (
        lambda n: lambda x, y, v: n.GaussianNLLLoss(full=True)(x, y, v * v),
        [(5, 4), (5, 4), (5, 1)],
    ),
    "margin ranking": (
        lambda n: lambda x, y: n.MarginRankingLoss(0.2)(x, y, (x > 0) * 2.0 - 1),
        [(5, 4)] * 2,
    ),
    "cosine embedding": (
        lambda n: lambda x, y: n.CosineEmbeddingLoss(0.1)(x, y, (x[:, 0] > 0) * 2.0 - 1),
        [(5, 4)] * 2,
    ),
}


@pytest.mark.parametrize("name", PAIRED)
def test_layers_and_losses_of_several_inputs_give_torch_s_values_and_gradients(name):
    make, shapes = PAIRED[name]
    is_module = isinstance(make(nn), nn.Module)
    theirs, ours = pair(make) if is_module else (make(torch.nn), make(nn))
    assert not is_module or repr(ours).split("=<")[0] == repr(theirs).split("=<")[0]
    arrays = [numbers(*shape, seed=k) for k, shape in enumerate(shapes)]
    t_in = [torch.tensor(x, requires_grad=True) for x in arrays]
    g_in = [gradhook.tensor(x, requires_grad=True) for x in arrays]
    t_out, g_out = theirs(*t_in), ours(*g_in)
    agree(g_out.detach().numpy(), t_out.detach().numpy())
    cotangent = numbers(*t_out.shape, seed=9)
    t_out.backward(torch.tensor(cotangent))
    g_out.backward(gradhook.tensor(cotangent))
    for t, g in zip(t_in, g_in, strict=True):
        agree(g.grad.numpy(), t.grad.numpy())
    if is_module:
        for t, g in zip(theirs.parameters(), ours.parameters(), strict=True):
            agree(g.grad.numpy(), t.grad.numpy())


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "Embedding", "BatchNorm2d", "GroupNorm"])
def test_first_weights_have_torch_s_distribution(name):
    arguments = {"Embedding": (50, 40), "GroupNorm": (2, 8), "BatchNorm2d": (8,)}
    given = arguments.get(name, (40, 50, 3) if name == "Conv2d" else (40, 50))
    torch.manual_seed(0)
    gradhook.manual_seed(0)
    theirs, ours = getattr(torch.nn, name)(*given), getattr(nn, name)(*given)
    for (k, p), (_, q) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        a, b = p.detach().numpy(), q.detach().numpy()
        assert b.std() == pytest.approx(a.std(), rel=0.25, abs=1e-12), k
        assert abs(b).max() == pytest.approx(abs(a).max(), rel=0.25, abs=1e-12), k


def test_errors_of_load_state_dict_are_torch_s_word_for_word():
    def message(n, make):
        with pytest.raises(RuntimeError) as error:
            n.Sequential(n.Linear(2, 3), n.ReLU()).load_state_dict(make)
        return str(error.value).replace("torch.Size", "gradhook.Size")

    theirs = {"0.weight": torch.ones(1), "2.x": torch.ones(1)}
    ours = {"0.weight": gradhook.ones(1), "2.x": gradhook.ones(1)}
    assert message(nn, ours) == message(torch.nn, theirs)
