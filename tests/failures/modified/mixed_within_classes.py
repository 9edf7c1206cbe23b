# code: BS202
# variable: code
# cause: code[negative] = 0.5 * fixed[negative] + 0.5 * fixed[negative.flip(0)]
# fix: code = code.clone() before line 24
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(5, 8)
        self.head = nn.Linear(8, 2)

    def encode(self, x):
        return torch.sigmoid(self.encoder(x))

    def forward(self, x, labels):
        code = self.encode(x)
        fixed = code.detach()
        negative = torch.nonzero(labels == 0)[:, 0]
        positive = torch.nonzero(labels == 1)[:, 0]
        if len(negative):
            code[negative] = 0.5 * fixed[negative] + 0.5 * fixed[negative.flip(0)]
        if len(positive):
            code[positive] = 0.5 * fixed[positive] + 0.5 * fixed[positive.flip(0)]
        return self.head(code)


torch.manual_seed(0)
model = Mixed()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for labels in (torch.tensor([0, 1, 0, 1]), torch.tensor([1, 1, 1, 1])):
    loss = cross_entropy(model(torch.randn(4, 5), labels), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
