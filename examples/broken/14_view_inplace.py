"""A box detector that decodes the width and height of its boxes in place.

What is wrong: `unbind` returns four views of one tensor at once; autograd cannot record an in-place change of
               one of them, because the other three would need new graphs too.
PyTorch says:  is a view and is being modified inplace
Fix:          use the out-of-place function: `width = width.exp()`, `height = height.exp()`.
"""

import torch
import torch.nn.functional as F
from torch import nn


class BoxHead(nn.Module):
    def __init__(self, in_features):
        super().__init__()
        self.regressor = nn.Linear(in_features, 4)

    def forward(self, features):
        x, y, width, height = self.regressor(features).unbind(dim=-1)
        width.exp_()  # sizes are predicted as logarithms
        height.exp_()
        return torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], dim=-1)


def main():
    torch.manual_seed(0)
    features, boxes = torch.randn(64, 32), torch.rand(64, 4)
    head = BoxHead(in_features=32)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(head(features), boxes)
        loss.backward()
        optimizer.step()


main()
