"""ULMFiT like gradual unfreezing: head, then the upper, then the lower layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower = nn.Linear(12, 32)
        self.upper = nn.Linear(32, 32)
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(F.relu(self.upper(F.relu(self.lower(x)))))


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


x = torch.randn(640, 12)
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
net = Net()
set_trainable(net.lower, False)
set_trainable(net.upper, False)
opt = torch.optim.Adam(net.head.parameters(), lr=5e-3)
for epoch in range(10):
    if epoch == 2:
        set_trainable(net.upper, True)
        opt.add_param_group({'params': net.upper.parameters(), 'lr': 3e-3})
    if epoch == 5:
        set_trainable(net.lower, True)
        opt.add_param_group({'params': net.lower.parameters(), 'lr': 3e-3})
    perm = torch.randperm(640)
    tot = hit = 0
    for i in range(0, 640, 32):
        j = perm[i:i + 32]
        out = net(x[j])
        loss = F.cross_entropy(out, y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
        hit += (out.argmax(1) == y[j]).sum().item()
    print(f'epoch {epoch} groups {len(opt.param_groups)} loss {tot / 20:.3f} acc {hit / 640:.3f}')
