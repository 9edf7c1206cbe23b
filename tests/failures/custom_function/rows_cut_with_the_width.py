# code: BS208
# variable: image
# cause: grad = padded[:, :, 1 : 1 + width, 1 : 1 + width]
# fix: padded[:, :, 1 : 1 + height, 1 : 1 + width]
import torch
import torch.nn.functional as F
from torch import nn


class Neighbors(torch.autograd.Function):
    @staticmethod
    def forward(ctx, image):
        ctx.save_for_backward(image)
        return F.avg_pool2d(image, 3, stride=1, padding=1) * 9

    @staticmethod
    def backward(ctx, grad_output):
        (image,) = ctx.saved_tensors
        n, channels, height, width = image.shape
        padded = grad_output.new_zeros(n, channels, height + 2, width + 2)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + height, j : j + width] += grad_output
        grad = padded[:, :, 1 : 1 + width, 1 : 1 + width]
        return grad


torch.manual_seed(0)
conv = nn.Conv2d(1, 2, 3, padding=1)
optimizer = torch.optim.SGD(conv.parameters(), lr=0.01)
for _ in range(2):
    loss = Neighbors.apply(conv(torch.randn(2, 1, 6, 10))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
