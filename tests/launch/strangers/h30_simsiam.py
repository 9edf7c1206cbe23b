"""SimSiam on digits: two noisy views, predictor on one side, stop-gradient on the other; kNN probe."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class View:
    def __init__(self, noise=0.1, erase=0.25):
        self.noise, self.erase = noise, erase

    def __call__(self, x):
        keep = (torch.rand_like(x) > self.erase).float()
        return x * keep + self.noise * torch.randn_like(x)


class SimSiam(nn.Module):
    def __init__(self, d_in=64, width=128, code=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d_in, width), nn.BatchNorm1d(width), nn.ReLU(),
                                     nn.Linear(width, code), nn.BatchNorm1d(code, affine=False))
        self.predictor = nn.Sequential(nn.Linear(code, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, code))

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return -0.5 * (F.cosine_similarity(pa, zb.detach()).mean() + F.cosine_similarity(pb, za.detach()).mean())


@torch.no_grad()
def knn(model, x, y, split=1300):
    model.eval()
    z = F.normalize(model.encoder(x), dim=1)
    nearest = (z[split:] @ z[:split].t()).topk(5).indices
    vote = y[:split][nearest].mode(1).values
    spread = z.std(0).mean().item()
    model.train()
    return (vote == y[split:]).float().mean().item(), spread


def main(epochs=12):
    torch.manual_seed(0)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    model, view = SimSiam(), View()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    print("start knn %.3f spread %.3f" % knn(model, x, y))
    for epoch in range(epochs):
        for idx in torch.randperm(1300).split(100):
            loss = model(view(x[idx]), view(x[idx]))
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()
        acc, spread = knn(model, x, y)
        print(f"epoch {epoch} loss {loss.item():.4f} knn {acc:.3f} spread {spread:.3f}")


if __name__ == "__main__":
    main()
