# code: BS201
# variable: model.writer.page
# cause: self.page = self.mix(torch.cat([self.page, notes], dim=1)).tanh()
# fix: model.writer.page = model.writer.page.detach()
from dataclasses import dataclass

import torch
from torch import nn

torch.manual_seed(0)


@dataclass
class Answer:
    logits: torch.Tensor
    loss: torch.Tensor


class Writer(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.mix = nn.Linear(2 * width, width)
        self.page = torch.zeros(5, width)

    def forward(self, notes):
        self.page = self.mix(torch.cat([self.page, notes], dim=1)).tanh()
        return self.page


class Reader(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.notes = nn.Linear(3, width)
        self.writer = Writer(width)
        self.answer = nn.Linear(width, 2)

    def forward(self, x, labels):
        logits = self.answer(self.writer(self.notes(x)))
        return Answer(logits, nn.functional.cross_entropy(logits, labels))


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    x, labels = torch.randn(5, 3), torch.randint(2, (5,))
    out = model(x, labels)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    print(step, out.loss.item())
