"""Semi-supervised multi-label classification with entropy minimisation on unlabelled data."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

settings = dict(dim=30, labels=4, n_labelled=800, n_unlabelled=2400, batch=40, steps=320,
                lr=5e-3, entropy_weight=0.2, entropy_from=20, log_every=40)


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(settings["dim"], settings["labels"], generator=torch.Generator().manual_seed(1))
    x = torch.randn(n, settings["dim"], generator=g)
    scale = torch.exp(0.7 * torch.randn(n, 1, generator=g))
    score = x @ w / math.sqrt(settings["dim"])
    pairs = score * score.roll(1, dims=1)
    return x * scale, (score + 0.8 * pairs > 0).float()


class MultiLabelNet(nn.Module):
    def __init__(self, dim, labels, width=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, width),
                                 nn.ReLU(), nn.Linear(width, labels))

    def forward(self, x):
        return self.net(x)


def entropy(logits):
    p = torch.sigmoid(logits)
    return -(p * torch.log(p) + (1 - p) * torch.log(1 - p)).mean()


class SemiSupervised:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = MultiLabelNet(cfg["dim"], cfg["labels"])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg["steps"])
        self.labelled = make_data(cfg["n_labelled"], 2)
        self.unlabelled = make_data(cfg["n_unlabelled"], 3)[0]
        self.test = make_data(1500, 4)

    def loss(self, step):
        b = self.cfg["batch"]
        i = torch.randint(0, len(self.labelled[0]), (b,))
        loss = F.binary_cross_entropy_with_logits(self.model(self.labelled[0][i]), self.labelled[1][i])
        if step > self.cfg["entropy_from"]:
            j = torch.randint(0, len(self.unlabelled), (2 * b,))
            loss = loss + self.cfg["entropy_weight"] * entropy(self.model(self.unlabelled[j]))
        return loss

    def update(self, step):
        loss = self.loss(step)
        if not torch.isfinite(loss):
            return None
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        self.sched.step()
        return loss.item()

    @torch.no_grad()
    def accuracy(self):
        x, y = self.test
        return ((self.model(x) > 0).float() == y).float().mean().item()

    def run(self):
        window = []
        for step in range(1, self.cfg["steps"] + 1):
            value = self.update(step)
            if value is not None:
                window.append(value)
            if step % self.cfg["log_every"] == 0:
                mean = sum(window[-20:]) / max(len(window[-20:]), 1)
                print(f"step {step:3d} loss {mean:.3f} test acc {self.accuracy():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    SemiSupervised(settings).run()
