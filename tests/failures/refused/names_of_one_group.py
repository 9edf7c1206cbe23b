# code: BS200
# variable: Some groups have parameters with names
# cause: slow = {"params": self.backbone.named_parameters(), "lr": self.rate / 10}
# fix: self.backbone.parameters()
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, rate=1e-2):
        super().__init__()
        self.rate = rate
        self.backbone = nn.GRU(4, 6, batch_first=True)
        self.tags = nn.Linear(6, 3)

    def forward(self, words):
        return self.tags(self.backbone(words)[0])

    def optimizer(self):
        slow = {"params": self.backbone.named_parameters(), "lr": self.rate / 10}
        fast = {"params": self.tags.parameters()}
        return torch.optim.SGD([slow, fast], lr=self.rate)


tagger = Tagger()
optimizer = tagger.optimizer()
for _ in range(2):
    scores = tagger(torch.randn(5, 7, 4))
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), torch.randint(3, (35,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
