# code: BS202
# variable: optimizer.step()
# cause: features = trunk(waves)
# fix: Move line 16, `features = trunk(waves)`, inside the loop
import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 8), nn.Tanh())
heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 3), nn.Linear(8, 2)])
optimizers = [torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.05) for head in heads]


def train(batches):
    for waves in batches:
        features = trunk(waves)
        for head, optimizer in zip(heads, optimizers):
            # each head has an optimizer of its own, which trains the trunk as well

            error = head(features).square().mean()
            optimizer.zero_grad()
            error.backward(retain_graph=True)
            optimizer.step()


train(torch.randn(4, 16, 12))
