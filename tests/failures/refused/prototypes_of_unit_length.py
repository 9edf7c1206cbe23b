# code: BS200
# variable: self.prototypes
# cause: self.prototypes = self.prototypes / self.prototypes.norm(dim=1, keepdim=True)
# fix: `prototypes_now = self.prototypes / self.prototypes.norm(dim=1, keepdim=True)`
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, 4)
        self.prototypes = nn.Parameter(torch.randn(3, 4))

    def forward(self, x, targets=None):
        prototypes = self.embed(x)
        self.prototypes = self.prototypes / self.prototypes.norm(dim=1, keepdim=True)
        logits = prototypes @ self.prototypes.T
        if targets is None:
            return logits
        return cross_entropy(logits, targets) + 0.1 * self.similarity()

    def similarity(self):
        return (self.prototypes @ self.prototypes.T).triu(1).square().mean()


torch.manual_seed(0)
model = Prototypes()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(6, 5), torch.randint(0, 3, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
