# code: BS200
# variable: this checkpoint() is not necessary
# cause: with torch.no_grad():
# fix: Remove line 22, `with torch.no_grad():`, and dedent
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Denoiser(nn.Module):
    def __init__(self, width=6, depth=2):
        super().__init__()
        self.adapter = nn.Linear(width, width)
        self.trunk = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth))
        self.out = nn.Linear(width, width)

    def forward(self, noisy):
        hidden = checkpoint(self.through_trunk, self.adapter(noisy), use_reentrant=True)
        return self.out(hidden)

    def through_trunk(self, hidden):
        with torch.no_grad():
            for block in self.trunk:
                hidden = hidden + block(hidden)
        return hidden


torch.manual_seed(0)
model = Denoiser()
optimizer = torch.optim.SGD([*model.adapter.parameters(), *model.out.parameters()], lr=0.1)
for step in range(4):
    clean = torch.randn(8, 6)
    loss = nn.functional.mse_loss(model(clean + 0.1 * torch.randn(8, 6)), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
