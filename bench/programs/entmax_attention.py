"""Sparse attention, by entmax, and its loss."""

import torch
from _digest import digest
from entmax import Entmax15Loss, entmax_bisect, sparsemax
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.alpha, self.head = nn.Parameter(torch.tensor(1.5)), nn.Linear(8, 4)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5
        out = entmax_bisect(scores, self.alpha.clamp(1.1, 2.0)) @ self.value(x)
        return self.head((sparsemax(out, dim=-1) + out).mean(dim=1))


model, loss_function = Attention(), Entmax15Loss(reduction="elementwise_mean")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 6, 8)
y = x.mean(dim=1)[:, :4].argmax(dim=1)
for _ in range(40):
    optimizer.zero_grad()
    loss = loss_function(model(x), y)
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(model))
