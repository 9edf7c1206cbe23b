"""The size of the weights is shown next to the loss, AdamW does the regularisation itself."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 40), nn.SiLU(), nn.Linear(40, 1))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def penalty(model):
    return 1e-3 * sum((p ** 2).sum() for p in model.parameters())


model = Regressor()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
history = {'fit': [], 'penalty': [], 'total': []}
for step in range(1, 201):
    x = torch.randn(32, 8)
    y = (x[:, :2].prod(1) + x[:, 2]).unsqueeze(1)
    fit = F.mse_loss(model(x), y)
    opt.zero_grad()
    fit.backward()
    opt.step()
    pen = penalty(model)
    history['fit'].append(fit.item())
    history['penalty'].append(pen.item())
    history['total'].append((fit.detach() + pen).item())
    if step % 50 == 0:
        print(f'step {step} ' + ' '.join(f'{k} {v[-1]:.4f}' for k, v in history.items()))
