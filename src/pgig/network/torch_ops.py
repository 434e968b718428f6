"""Torch's functions by what they do: activations that are no gates, products, and what commutes with a gate."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# those that pass on what is positive are in gates.py; of these, only a call that is no gate is meant
ACTIVATIONS: tuple[Any, ...] = (
    F.hardtanh, F.hardtanh_, F.hardsigmoid, F.softplus, F.softsign, F.threshold, F.logsigmoid, F.sigmoid, F.tanh, F.glu,
    torch.sigmoid, torch.sigmoid_, Tensor.sigmoid, Tensor.sigmoid_, torch.tanh, torch.tanh_, Tensor.tanh, Tensor.tanh_,
    torch.clamp, torch.clamp_, Tensor.clamp, Tensor.clamp_, torch.clamp_min, Tensor.clamp_min, Tensor.clamp_min_,
    F.hardshrink, F.softshrink, F.tanhshrink, torch.lstm, torch.gru, torch.rnn_relu, torch.rnn_tanh,
)  # fmt: skip
WITH_WEIGHT = {torch.conv1d, torch.conv2d, torch.conv3d, F.linear}
PRODUCTS = WITH_WEIGHT | {
    torch.einsum, torch.bmm, Tensor.bmm, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.baddbmm, torch.tensordot,
    F.bilinear, F.multi_head_attention_forward, torch.lstm, torch.gru, torch.rnn_relu, torch.rnn_tanh,
    torch.lstm_cell, torch.gru_cell, torch.rnn_relu_cell, torch.rnn_tanh_cell, torch.mv, Tensor.mv, torch.mm, Tensor.mm,
    torch.addmv, Tensor.addmv, torch.addmm, Tensor.addmm, torch.addbmm, Tensor.addbmm, Tensor.baddbmm, torch.inner,
    Tensor.inner, torch.outer, Tensor.outer, torch.dot, Tensor.dot, torch.linalg.matmul, torch.linalg.multi_dot,
    torch.linalg.vecdot, torch.chain_matmul, torch.conv_tbc, torch.conv_transpose1d, torch.conv_transpose2d,
    torch.conv_transpose3d,
}  # fmt: skip
DROPOUTS = F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout
# they give what they were given
UNCHANGING = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout, Tensor.contiguous,
               Tensor.clone, torch.clone, Tensor.to}  # fmt: skip
# each channel by itself, no value but those that were there, or a constant: a norm behind them is as one before them
BY_CHANNEL = UNCHANGING | {
    F.max_pool2d, F.max_pool3d, torch.max_pool2d, torch.max_pool3d, F.adaptive_max_pool2d, F.adaptive_max_pool3d, F.pad,
}  # fmt: skip
# what commutes with a gate: gate(op(x)) = op(gate(x)), value by value
COMMUTING = BY_CHANNEL | {
    F.max_pool1d, torch.max_pool1d, F.adaptive_max_pool1d, torch.flatten, Tensor.flatten, Tensor.view,
    Tensor.reshape, torch.reshape, Tensor.permute, torch.permute, Tensor.transpose, torch.transpose, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.squeeze, torch.squeeze, Tensor.__getitem__, torch.movedim, Tensor.movedim, Tensor.t,
}  # fmt: skip
IN_PLACE_ADDITIONS = {Tensor.__iadd__, Tensor.add_}
ADDITIONS = {Tensor.__add__, Tensor.__radd__, Tensor.add, torch.add, *IN_PLACE_ADDITIONS}
# what they give does not depend on what was computed
OF_THE_SHAPE = {torch.zeros_like, torch.ones_like, torch.empty_like, torch.full_like, Tensor.new_zeros, Tensor.new_ones,
                Tensor.new_full, Tensor.new_empty, Tensor.new_tensor}  # fmt: skip
UNREMARKABLE = {Tensor.__getitem__, Tensor.contiguous, Tensor.to, Tensor.clone, Tensor.t}
