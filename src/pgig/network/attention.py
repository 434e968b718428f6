"""nn.MultiheadAttention by its parts, so that rules and moments see the projections that torch computes inside."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def can_be_told_apart(
    *, bias_k: Any = None, bias_v: Any = None, add_zero_attn: bool = False, static_k: Any = None, static_v: Any = None,
    dropout_p: float = 0, training: bool = True, **_: Any,
) -> bool:  # fmt: skip
    """Is what `attention_by_parts` computes exactly what torch does with such arguments?"""
    rare = any(value is not None for value in (bias_k, bias_v, static_k, static_v)) or add_zero_attn
    return not rare and not (training and dropout_p > 0)


def attention_by_parts(
    *, query: Tensor, key: Tensor, value: Tensor, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, average_attn_weights: bool = True, **_: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """`F.multi_head_attention_forward`, in evaluation: projections, attention, the projection of the result.

    `is_causal` says no more than the mask does, which torch wants beside it.
    """
    single = query.dim() == 2
    if single:
        same = query is key and key is value
        query, key, value = (query[:, None],) * 3 if same else (query[:, None], key[:, None], value[:, None])
        key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
    length, rows, width = query.shape
    if use_separate_proj_weight:
        assert q_proj_weight is not None and k_proj_weight is not None and v_proj_weight is not None  # noqa: PT018
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        weights = q_proj_weight, k_proj_weight, v_proj_weight
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    else:
        assert in_proj_weight is not None
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    q, k, v = (x.reshape(len(x), rows, num_heads, width // num_heads).permute(1, 2, 0, 3) for x in (q, k, v))
    mask = _mask(attn_mask, key_padding_mask, rows, num_heads, q)
    if need_weights:
        scores = q * (width // num_heads) ** -0.5 @ k.transpose(-2, -1)
        attended = (scores if mask is None else scores + mask).softmax(-1)
        heard = attended @ v
    else:
        attended = None
        heard = F.scaled_dot_product_attention(q, k, v, mask)
    output = F.linear(heard.permute(2, 0, 1, 3).reshape(length, rows, width), out_proj_weight, out_proj_bias)
    if attended is not None:
        attended = attended.mean(1) if average_attn_weights else attended
        attended = attended[0] if single else attended
    return (output[:, 0] if single else output), attended


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    if query is key and key is value:
        return F.linear(query, weight, bias).chunk(3, -1)
    width = weight.shape[1]
    b_q, b_rest = (None, None) if bias is None else (bias[:width], bias[width:])
    q = F.linear(query, weight[:width], b_q)
    if key is value:
        return q, *F.linear(key, weight[width:], b_rest).chunk(2, -1)
    b_k, b_v = (None, None) if b_rest is None else b_rest.chunk(2)
    return q, F.linear(key, weight[width : 2 * width], b_k), F.linear(value, weight[2 * width :], b_v)


def _mask(
    attn_mask: Tensor | None, padding: Tensor | None, rows: int, heads: int, like: Tensor
) -> Tensor | None:  # [rows or 1, heads or 1, queries or 1, keys], added to the scores
    found = None
    if attn_mask is not None:
        mask = _added(attn_mask, like)
        found = mask[None, None] if mask.dim() == 2 else mask.reshape(rows, heads, *mask.shape[1:])
    if padding is not None:
        closed = _added(padding, like)[:, None, None]
        found = closed if found is None else found + closed
    return found


def _added(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, float("-inf"))
    return mask.to(like.dtype)
