"""TransformerEncoder, TransformerDecoder and Transformer."""

from __future__ import annotations

import copy
from typing import Any

from gradhook.nn import functional as F
from gradhook.nn import init
from gradhook.nn.container import ModuleList
from gradhook.nn.functional.attention_masks import canonical_mask, square_subsequent_mask
from gradhook.nn.module import Module
from gradhook.nn.normalization import LayerNorm
from gradhook.nn.transformer_layers import (
    Activation,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from gradhook.tensor import Tensor


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoder(Module):
    """num_layers copies of an encoder layer, one after the other, then a norm.

    enable_nested_tensor and mask_check are accepted: there is no other path, so padded positions of
    the result hold values in evaluation as in training. Source: torch.nn.TransformerEncoder.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """src, masks and result: TransformerEncoderLayer.

        is_causal: a hint for the layers. PyTorch reads the mask to find out when it is None; here
        the device is not waited for, the layers are given False and apply the mask.
        """
        padding = canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, mask, "mask"
        )
        mask = canonical_mask(mask, "mask", src.dtype)
        output = src
        for layer in self.layers:
            output = layer(
                output, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding
            )
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """num_layers copies of a decoder layer, one after the other, then a norm.

    Source: torch.nn.TransformerDecoder.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt, memory, masks and result: TransformerDecoderLayer.

        tgt_is_causal: as is_causal of TransformerEncoder.
        """
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder over its result. Weights are drawn by Xavier's rule.

    custom_encoder, custom_decoder: modules that take their places.
    Source: torch.nn.Transformer, arXiv:1706.03762.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation)
        form = (layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)

        self.encoder = custom_encoder
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*sizes, *form, **where)
            self.encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*sizes, *form, **where)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        """Draw all matrices anew, those of custom parts too."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """src: (S, N, d_model), tgt: (T, N, d_model); N first with batch_first; or without N.

        Masks: TransformerEncoderLayer and TransformerDecoderLayer. Result: as tgt. Errors:
        RuntimeError when the batches differ or the features are not d_model.
        """
        batch = 0 if self.batch_first else 1
        if src._a.ndim == 3 and src._a.shape[batch] != tgt._a.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src._a.shape[-1] != self.d_model or tgt._a.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        result: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return result

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz) of -inf above the diagonal and 0 elsewhere: row i sees columns up to i."""
        return square_subsequent_mask(sz, device, dtype)


__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]
