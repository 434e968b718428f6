"""An explainer of your own, beside the project's, on images whose truth is known: python examples/own_explainer.py"""

import torch
from torch import Tensor, nn

from pgig.synthetic import truth_test


def occlusion(model: nn.Module, x: Tensor, target: Tensor, side: int = 8) -> Tensor:
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


def main(images: int = 32) -> None:
    methods = {"occlusion": occlusion, "integrated_gradients": "integrated_gradients", "pgig": "pgig"}
    test = truth_test("suppressor", methods, images=images)
    for name, row in test.table().items():
        print(f"{name:24s}", "  ".join(f"{column} {found}" for column, found in list(row.items())[:2]))


if __name__ == "__main__":
    main()
