"""Functions of neural networks under PyTorch's names: the table's own, and those with arguments to
check first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradhook.functions import table_functions
from gradhook.nn.functional.activation import (
    celu,
    elu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    relu,
    relu6,
    relu_,
    rrelu,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softsign,
    tanh,
)
from gradhook.nn.functional.attention import scaled_dot_product_attention
from gradhook.nn.functional.bilinear import bilinear
from gradhook.nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from gradhook.nn.functional.ctc import ctc_loss
from gradhook.nn.functional.distance import (
    cosine_similarity,
    pairwise_distance,
    pdist,
)
from gradhook.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from gradhook.nn.functional.embedding import embedding, one_hot
from gradhook.nn.functional.embedding_bag import embedding_bag
from gradhook.nn.functional.fold import fold, unfold
from gradhook.nn.functional.fractional_pool import (
    fractional_max_pool2d,
    fractional_max_pool3d,
)
from gradhook.nn.functional.grid import affine_grid, grid_sample
from gradhook.nn.functional.gumbel import gumbel_softmax
from gradhook.nn.functional.likelihood_loss import (
    gaussian_nll_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
)
from gradhook.nn.functional.linear_cross_entropy import linear_cross_entropy
from gradhook.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from gradhook.nn.functional.margin_loss import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from gradhook.nn.functional.multi_head_attention import multi_head_attention_forward
from gradhook.nn.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    normalize,
    rms_norm,
)
from gradhook.nn.functional.padding import pad
from gradhook.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from gradhook.nn.functional.power_pool import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    local_response_norm,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
)
from gradhook.nn.functional.resample import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from gradhook.nn.functional.shrinkage import (
    hardshrink,
    softshrink,
    tanhshrink,
    threshold,
)
from gradhook.nn.functional.shuffle import (
    channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
)
from gradhook.nn.functional.unpool import max_unpool1d, max_unpool2d, max_unpool3d
from gradhook.ops.documentation import sourced
from gradhook.overloads.arguments import tensors_only
from gradhook.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# The table's functions fill in what is not written by hand here: gelu, linear, prelu, ...
_generated = {k: f for k, f in table_functions("nn.functional").items() if k not in __all__}
globals().update(_generated)
sourced(((name, globals()[name]) for name in __all__), "nn.functional.")
globals().update({name: tensors_only(globals()[name], f"nn.functional.{name}") for name in __all__})
__all__ += sorted(_generated)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Tensor]:
        """A function generated from the op table."""
