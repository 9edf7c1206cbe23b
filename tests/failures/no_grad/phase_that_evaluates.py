# code: BS203
# variable: loss
# cause: with torch.set_grad_enabled(phase == "train"):
# fix: Call backward only where the argument of torch.set_grad_enabled(phase == "train") is true
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def run(phase):
    with torch.set_grad_enabled(phase == "train"):
        loss = F.cross_entropy(model(x), labels)
    loss.backward()


run("val")
