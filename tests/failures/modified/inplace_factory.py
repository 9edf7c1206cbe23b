# code: BS202
# variable: net.1.act
# cause: y = self.act(g) * self.fc2(x)
# fix: The same applies to net[0].act
import torch
from torch import nn

def act(kind):
    return {"relu": nn.ReLU(inplace=True), "sigmoid": nn.Sigmoid(), "leaky": nn.LeakyReLU(0.2, inplace=True)}[kind]

class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim)
        self.gate = act("sigmoid")
        self.fc2 = nn.Linear(dim, dim)
        self.act = act("leaky")
    def forward(self, x):
        g = self.gate(self.fc1(x))
        y = self.act(g) * self.fc2(x)
        return x + y

net = nn.Sequential(Residual(8), Residual(8), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(4, 8)).pow(2).mean()
loss.backward()
opt.step()
