# code: BS202
# variable: norm.scale
# cause: self.scale.mul_(0.9).add_(h.detach().std(0), alpha=0.1)
# fix: return h / self.scale.clone()
import torch


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        h = self.fc(x)
        self.scale.mul_(0.9).add_(h.detach().std(0), alpha=0.1)
        return h / self.scale


norm = Norm()
loss = (norm(torch.randn(3, 4)) + norm(torch.randn(3, 4))).sum()
loss.backward()
