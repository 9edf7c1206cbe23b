"""A spiking network with leaky neurons, trained through surrogate gradients."""

import snntorch as snn
import torch
from _digest import digest
from snntorch import functional as SF
from snntorch import surrogate
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        grad = surrogate.fast_sigmoid(slope=25)
        self.fc1, self.lif1 = nn.Linear(20, 32), snn.Leaky(beta=0.9, spike_grad=grad)
        self.fc2, self.lif2 = nn.Linear(32, 4), snn.Leaky(beta=0.9, spike_grad=grad, learn_beta=True)

    def forward(self, x):
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes = []
        for _ in range(15):
            spk1, mem1 = self.lif1(self.fc1(x), mem1)
            spk2, mem2 = self.lif2(self.fc2(spk1), mem2)
            spikes.append(spk2)
        return torch.stack(spikes)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.9, 0.999))
loss_fn = SF.ce_rate_loss()
x = torch.rand(256, 20) * 2
y = x[:, :4].argmax(dim=1)
for epoch in range(4):
    for bx, by in zip(x.split(32), y.split(32), strict=True):
        loss = loss_fn(net(bx), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), SF.accuracy_rate(net(x), y))
print(digest(net))
