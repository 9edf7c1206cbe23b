# code: BS201
# variable: model.rotation
# cause: self.rotation = torch.linalg.qr(self.raw)[0]
# fix: write `self.rotation = torch.linalg.qr(self.raw)[0].detach()`: optimizer trains nothing
import torch
from torch import nn

torch.manual_seed(0)


class Rotated(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(dim, dim))
        self.head = nn.Linear(dim, 2)
        self.rotation = None

    def forward(self, x):
        if self.rotation is None:
            self.rotation = torch.linalg.qr(self.raw)[0]
        return self.head(torch.tanh(x @ self.rotation))


model = Rotated().eval()
image = torch.randn(3, 4)
noise = torch.zeros_like(image, requires_grad=True)
optimizer = torch.optim.Adam([noise], lr=0.05)
for step in range(4):
    loss = -nn.functional.cross_entropy(model(image + noise), torch.tensor([0, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
