# %% [markdown]
# # An explainer of your own
#
# Anything that turns a model, inputs and classes into attributions can stand beside the project's own, in every command and table. Here a plain
# occlusion, on images whose truth is known: bars under streaks, where the network must subtract what it sees above and below them.

# %%
import torch
from torch import Tensor, nn

from pgig.synthetic import truth_test


def squares(model: nn.Module, x: Tensor, target: Tensor, side: int = 8) -> Tensor:
    """How much the class's score falls when a square is set to zero."""
    attribution = torch.zeros_like(x)
    with torch.no_grad():
        before = model(x).gather(1, target[:, None])[:, 0]
        for top in range(0, x.shape[2], side):
            for left in range(0, x.shape[3], side):
                hidden = x.clone()
                hidden[:, :, top : top + side, left : left + side] = 0
                fall = before - model(hidden).gather(1, target[:, None])[:, 0]
                attribution[:, :, top : top + side, left : left + side] = fall[:, None, None, None]
    return attribution


methods = {"squares": squares, "integrated_gradients": "integrated_gradients", "pgig": "pgig"}
test = truth_test("suppressor", methods, images=16)
for name, row in test.table().items():
    print(f"{name:24s}", "  ".join(f"{column} {found}" for column, found in list(row.items())[:2]))

# %% [markdown]
# With `pgig.register("squares", squares)` the name is known everywhere: [adding to pgig](../adding.md).
