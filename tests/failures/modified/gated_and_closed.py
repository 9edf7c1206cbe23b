# code: BS202
# variable: h
# cause: h *= g
# fix: Write h = h * g
# varied: h = h + x
# or: if x.dim() > 2:\n    h = h + x
# or: h = h.view(2, 3)
# or: h = self.act(h)
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.gate, self.act = (
            torch.nn.Linear(3, 3),
            torch.nn.Linear(3, 3),
            torch.nn.Identity(),
        )

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        h = torch.tanh(self.fc(x))
        h *= g
        h = h + x
        h[:, 0] = 0
        return self.fc(h)


block = Block()
block(torch.randn(2, 3)).sum().backward()
