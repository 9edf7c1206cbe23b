import torch
import torch.nn as nn
import torch.nn.functional as F

config = {
    'hidden': [64, 64, 64, 64],
    'lr': 3e-3,
    'weight_decay': 0.5,
    'batch_size': 50,
    'epochs': 12,
}


class MLP(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        sizes = [n_in] + hidden
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(sizes[-1], n_out)

    def forward(self, x):
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.out(x)


def run(cfg):
    torch.manual_seed(0)
    x = torch.randn(1000, 18)
    y = (x[:, :3].sum(1) > 0).long() + (x[:, 3:6].sum(1) > 0).long()
    model = MLP(18, cfg['hidden'], 3)
    opt = torch.optim.Adam(model.parameters(), lr=cfg['lr'], weight_decay=cfg['weight_decay'])
    for epoch in range(cfg['epochs']):
        perm = torch.randperm(1000)
        tot = hit = 0
        for i in range(0, 1000, cfg['batch_size']):
            j = perm[i:i + cfg['batch_size']]
            out = model(x[j])
            loss = F.cross_entropy(out, y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
            hit += (out.argmax(1) == y[j]).sum().item()
        norms = ' '.join(f'{l.weight.norm():.3f}' for l in model.hidden)
        if epoch % 2:
            print(f'epoch {epoch} loss {tot / 20:.4f} acc {hit / 1000:.3f} norms {norms}')


run(config)
