# code: BS202
# variable: other
# cause: optimizer.step()
# fix: other.detach()
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
peers = [nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)) for _ in range(2)]
optimizers = [torch.optim.SGD(peer.parameters(), lr=0.1) for peer in peers]


def step(x, y):
    outputs = [peer(x) for peer in peers]
    for index, optimizer in enumerate(optimizers):
        other = outputs[1 - index]
        agreed = F.kl_div(outputs[index].log_softmax(1), other.softmax(1), reduction="batchmean")
        loss = F.cross_entropy(outputs[index], y) + agreed
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


for _ in range(3):
    step(torch.randn(8, 6), torch.randint(3, (8,)))
