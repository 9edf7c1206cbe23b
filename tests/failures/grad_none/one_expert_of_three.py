# code: BS213
# variable: mixture.experts.1.weight
# cause: return self.experts[index](x)
# fix: if p.grad is not None
import torch
from torch import nn

torch.manual_seed(0)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, x, index):
        return self.experts[index](x)


mixture = Mixture()
optimizer = torch.optim.SGD(mixture.parameters(), lr=0.1)
for step in range(4):
    loss = mixture(torch.randn(5, 4), step % 2 * 2).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in mixture.parameters()]).norm()
    optimizer.step()
    print(step, loss.item(), norm.item())
