# code: BS214
# variable: self.peak
# cause: @torch.inference_mode()
# fix: Use torch.no_grad() instead
import torch
from torch import nn


class Observer(nn.Module):
    """Scales what a layer computes by the largest value seen while calibrating."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.peak, self.calibrating = torch.ones(width), False

    def forward(self, x):
        x = self.layer(x)
        if self.calibrating:
            self.peak = torch.maximum(self.peak, x.abs().amax(dim=0))
            return x
        return torch.tanh(x / self.peak)


@torch.inference_mode()
def calibrate(observer, batches):
    observer.calibrating = True
    for x in batches:
        observer(x)
    observer.calibrating = False


torch.manual_seed(0)
observer, head = Observer(5), nn.Linear(5, 1)
batches = [torch.randn(8, 5) * 3 for _ in range(4)]
optimizer = torch.optim.Adam([*observer.parameters(), *head.parameters()], lr=1e-2)
calibrate(observer, batches)
for x in batches:
    loss = (head(observer(x)) - x.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
