# code: BS203
# variable: loss
# cause: return first.setdefault("logits", logits.detach())
# fix: write `first.setdefault('logits', logits.detach())`, without return
import torch
from torch import nn

first = {}


def remember(module, inputs, logits):
    return first.setdefault("logits", logits.detach())


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 7)
        self.head = nn.Linear(7, 3)
        self.head.register_forward_hook(remember)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def train(net, labels):
    optimizer = torch.optim.RMSprop(net.parameters())
    for _ in range(2):
        loss = nn.functional.cross_entropy(net(torch.randn(4, 5)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(Classifier(), torch.tensor([0, 2, 1, 0]))
