"""A loss averaged over several scales, rebuilt from Python numbers.

What is wrong: `.item()` returns the number without its graph; the `torch.tensor`
               made from such numbers is a new constant, detached from the model.
PyTorch says:  element 0 of tensors does not require grad and does not have a grad_fn
Fix:          collect the tensors themselves and combine them with `torch.stack(losses).mean()`; call
               `.item()` only on what is printed or logged.
"""

import torch
import torch.nn.functional as F
from torch import nn


def make_loss_function(scales):
    def multi_scale_loss(prediction, target):
        losses = []
        for scale in scales:
            small_prediction = F.avg_pool2d(prediction, scale)
            small_target = F.avg_pool2d(target, scale)
            losses.append(F.l1_loss(small_prediction, small_target).item())
        return torch.tensor(losses).mean()

    return multi_scale_loss


torch.manual_seed(0)
noisy, clean = torch.randn(8, 1, 16, 16), torch.randn(8, 1, 16, 16)
denoiser = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
optimizer = torch.optim.Adam(denoiser.parameters(), lr=1e-3)
loss_function = make_loss_function(scales=(1, 2, 4))

for step in range(5):
    loss = loss_function(denoiser(noisy), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
