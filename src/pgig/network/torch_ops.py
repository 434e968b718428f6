"""Torch's functions by what they do: which are ReLUs, other activations, products, and what commutes with a ReLU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

IN_PLACE_RELUS = {torch.relu_, Tensor.relu_, F.relu_}
RELUS = {F.relu, torch.relu, Tensor.relu, *IN_PLACE_RELUS}
ACTIVATIONS: tuple[Any, ...] = (
    F.leaky_relu, F.leaky_relu_, F.elu, F.elu_, F.gelu, F.silu, F.relu6, F.hardtanh, F.hardtanh_, F.hardswish,
    F.hardsigmoid, F.softplus, F.softsign, F.selu, F.selu_, F.celu, F.celu_, F.mish, F.prelu,
    F.threshold, F.logsigmoid, F.sigmoid, F.tanh, F.glu, torch.sigmoid, torch.sigmoid_, Tensor.sigmoid,
    Tensor.sigmoid_, torch.tanh, torch.tanh_, Tensor.tanh, Tensor.tanh_, torch.selu, torch.celu, torch.prelu,
    Tensor.prelu, torch.clamp, torch.clamp_, Tensor.clamp, Tensor.clamp_, torch.clamp_min, Tensor.clamp_min,
    Tensor.clamp_min_, F.hardshrink, F.softshrink, F.tanhshrink, torch.lstm, torch.gru, torch.rnn_relu,
    torch.rnn_tanh,
)  # fmt: skip
WITH_WEIGHT = {torch.conv1d, torch.conv2d, torch.conv3d, F.linear}
PRODUCTS = WITH_WEIGHT | {
    torch.einsum, torch.bmm, Tensor.bmm, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.baddbmm, torch.tensordot,
    F.bilinear, F.multi_head_attention_forward, torch.lstm, torch.gru, torch.rnn_relu, torch.rnn_tanh,
}  # fmt: skip
DROPOUTS = F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout
# they give what they were given
UNCHANGING = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout, Tensor.contiguous,
               Tensor.clone, torch.clone, Tensor.to}  # fmt: skip
# what commutes with a ReLU: relu(op(x)) = op(relu(x)), value by value
COMMUTING = UNCHANGING | {
    F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.max_pool1d, torch.max_pool2d, torch.max_pool3d,
    F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d, torch.flatten, Tensor.flatten, Tensor.view,
    Tensor.reshape, torch.reshape, Tensor.permute, torch.permute, Tensor.transpose, torch.transpose, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.squeeze, torch.squeeze, Tensor.__getitem__, torch.movedim, Tensor.movedim, Tensor.t,
}  # fmt: skip
ADDITIONS = {Tensor.__add__, Tensor.__radd__, Tensor.add, torch.add, Tensor.__iadd__, Tensor.add_}
ADDING = ADDITIONS | {torch.cat, torch.concat, Tensor.expand, Tensor.repeat, Tensor.expand_as}
UNREMARKABLE = {Tensor.__getitem__, Tensor.contiguous, Tensor.to, Tensor.clone, Tensor.t}
