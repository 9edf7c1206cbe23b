# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Remove @torch.no_grad() from compute_loss
# or: @torch.inference_mode()
# or: @torch.no_grad
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


class Trainer:
    def __init__(self):
        self.model = model

    @torch.no_grad()
    def compute_loss(self, x):
        return F.cross_entropy(self.model(x), labels)

    def fit(self):
        loss = self.compute_loss(x)
        loss.backward()


Trainer().fit()
