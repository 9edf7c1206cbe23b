# code: BS203
# variable: entropy
# cause: with torch.inference_mode(True):
# fix: `with torch.no_grad():`
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model[1].parameters(), lr=1e-2)


class Adapter:
    @torch.enable_grad()
    def __call__(self, x):
        logits = model(x)
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
        optimizer.zero_grad()
        entropy.backward()
        optimizer.step()
        return logits


adapt, right = Adapter(), 0
with torch.inference_mode(True):
    for x, y in zip(torch.randn(3, 6, 4), torch.randint(0, 3, (3, 6))):
        right += (adapt(x).argmax(1) == y).sum().item()
print(right / 18)
