# code: BS201
# variable: model.attention.out_proj.weight
# cause: prune.random_unstructured(model.attention.out_proj, "weight", amount=0.5)
# fix: Pruning computes
import torch
from torch import nn
from torch.nn.utils import prune


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].mean(1))


torch.manual_seed(0)
model = Pooler()
prune.random_unstructured(model.attention.out_proj, "weight", amount=0.5)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(4, 5, 8)
    loss = (model(x) - x.mean((1, 2))[:, None]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
