"""Torch's own multi-head attention in one function, as WavLM calls it, opened up between its projections."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from attnprobe.model.loading.support import UnsupportedModelError

#: From queries, keys, values (batch, head, token, width) and a mask to (batch, head, query, width).
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def multi_head_attention(
    attend: Attend,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Do what ``torch.nn.functional.multi_head_attention_forward`` does, with attention of ours inside.

    The arguments are those of that function; ``query``, ``key``, ``value`` are (token, batch, width).

    Returns:
        The output (query, batch, width), and None in place of the weights.

    Raises:
        UnsupportedModelError: For what no encoder asks of it: keys of its own, padding.
    """
    padded = key_padding_mask is not None and bool(key_padding_mask.any())
    if bias_k is not None or bias_v is not None or add_zero_attn or padded:
        raise UnsupportedModelError("multi_head_attention_forward", "it adds keys of its own, or padding")
    if use_separate_proj_weight:
        weights = q_proj_weight, k_proj_weight, v_proj_weight
    else:
        assert in_proj_weight is not None
        weights = in_proj_weight.chunk(3)
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    sides = zip((query, key, value), weights, biases, strict=True)

    def by_head(tokens: Tensor) -> Tensor:
        return tokens.unflatten(-1, (num_heads, -1)).permute(1, 2, 0, 3)

    queries, keys, values = (by_head(linear(*side)) for side in sides)  # type: ignore[arg-type]
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = attn_mask.unflatten(0, (-1, num_heads))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = ~attn_mask  # here True is what is not seen
    mixed = attend(queries, keys, values, attn_mask)
    return linear(mixed.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias), None
