# code: BS202
# variable: smooth.memory
# cause: self.memory = after
# fix: adam.step()
import torch


class Filter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Linear(6, 3)
        self.memory = torch.zeros(3)

    def forward(self, x):
        before = self.memory
        after = torch.tanh(self.mix(torch.cat([x, before])))
        self.memory = after
        return after.square().mean()


smooth = Filter()
adam = torch.optim.Adam(smooth.parameters())
for x in torch.randn(4, 3):
    cost = smooth(x)
    adam.zero_grad()
    cost.backward(retain_graph=True)
    adam.step()
