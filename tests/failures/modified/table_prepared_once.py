# code: BS202
# variable: net.table
# cause: self.table = self.mix(self.emb.weight).tanh()
# fix: put `self.table = self.mix(self.emb.weight).tanh()` above line
"""A method that prepares a table runs once, and the error message said to retain the graph."""

import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.mix, self.out = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 1)
    def prepare(self):
        self.table = self.mix(self.emb.weight).tanh()
    def forward(self, i):
        return self.out(self.table[i])
def main():
    net = Net()
    net.prepare()
    opt = torch.optim.Adam(net.parameters())
    for _ in range(3):
        i = torch.randint(5, (8,))
        loss = net(i).square().mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()
main()
