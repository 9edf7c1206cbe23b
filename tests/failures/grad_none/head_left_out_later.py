# code: BS213
# variable: model.aux.weight
# cause: if aux is not None and epoch < 1:
# fix: is not None
import torch
import torch.nn.functional as F
from torch import nn


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.main, self.aux = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x):
        h = F.relu(self.enc(x))
        return self.main(h), self.aux(h)


def loss_of(out, y, epoch):
    main, aux = out
    loss = F.cross_entropy(main, y)
    if aux is not None and epoch < 1:
        loss = loss + 0.4 * F.cross_entropy(aux, y)
    return loss


def norms(model):
    return {name: p.grad.norm().item() for name, p in model.named_parameters()}


model = Segmenter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    for x in torch.randn(3, 10, 6):
        optimizer.zero_grad()
        loss = loss_of(model(x), (x[:, 0] > 0).long(), epoch)
        loss.backward()
        print(epoch, norms(model))
        optimizer.step()
