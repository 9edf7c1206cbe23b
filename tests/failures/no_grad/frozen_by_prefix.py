# code: BS203
# variable: model
# cause: p.requires_grad = False
# fix: Write "head" instead of "fc"
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)
    def forward(self, x):
        return self.head(self.body(x))

def freeze_backbone(model):
    for n, p in model.named_parameters():
        if "fc" not in n:
            p.requires_grad = False

model = Net()
freeze_backbone(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))
loss = nn.functional.cross_entropy(model(x), y)
loss.backward()
opt.step()
