"""Vector-quantised autoencoder with straight-through gradients on short waveforms."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def waveforms(n, seed, length=64):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, length)
    kind = torch.randint(0, 4, (n, 1), generator=g).float()
    phase = torch.rand(n, 1, generator=g)
    return torch.sin(2 * torch.pi * ((kind + 1) * t + phase)) * (0.6 + 0.4 * torch.rand(n, 1, generator=g))


class Quantizer(nn.Module):
    def __init__(self, codes=48, dim=8, commitment=0.25):
        super().__init__()
        self.codebook = nn.Parameter(0.5 * torch.randn(codes, dim))
        self.commitment = commitment

    def forward(self, z):
        with torch.no_grad():
            index = torch.cdist(z.reshape(-1, z.shape[-1]), self.codebook).argmin(1).view(z.shape[:-1])
        q = self.codebook[index]
        loss = F.mse_loss(q, z.detach()) + self.commitment * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss, index


class VQVAE(nn.Module):
    def __init__(self, length=64, tokens=8, dim=8):
        super().__init__()
        self.tokens, self.dim = tokens, dim
        self.enc = nn.Sequential(nn.Linear(length, 128), nn.ReLU(), nn.Linear(128, tokens * dim))
        self.vq = Quantizer(dim=dim)
        self.dec = nn.Sequential(nn.Linear(tokens * dim, 128), nn.ReLU(), nn.Linear(128, length))

    def forward(self, x):
        z = self.enc(x).view(-1, self.tokens, self.dim)
        q, vq_loss, index = self.vq(z)
        return self.dec(q.flatten(1)), vq_loss, index


@torch.no_grad()
def restart_dead_codes(model, x, used):
    """Unused codes are moved onto random encoder outputs."""
    dead = (~used).nonzero().squeeze(1)
    if len(dead):
        z = model.enc(x).view(-1, model.dim)
        model.vq.codebook[dead] = z[torch.randint(0, len(z), (len(dead),))]
    return len(dead)


def main(epochs=10, batch=64):
    torch.manual_seed(0)
    train, test = waveforms(1600, 0), waveforms(400, 1)
    model = VQVAE()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        used = torch.zeros(len(model.vq.codebook), dtype=torch.bool)
        for idx in torch.randperm(len(train)).split(batch):
            recon, vq_loss, index = model(train[idx])
            loss = F.mse_loss(recon, train[idx]) + vq_loss
            opt.zero_grad()
            loss.backward()
            opt.step()
            used[index.unique()] = True
        moved = restart_dead_codes(model, train[:200], used) if epoch < 4 else 0
        with torch.no_grad():
            recon, _, _ = model(test)
            mse = F.mse_loss(recon, test).item()
        print(f"epoch {epoch} test mse {mse:.4f} used codes {used.sum().item()} moved {moved}")


if __name__ == "__main__":
    main()
