# code: BS206
# variable: self.images
# cause: self.images = self.start(n, cfg["dim"], cfg["init_scale"])
# fix: detach().requires_grad_()
"""Learning a handful of synthetic examples (dataset distillation) by matching gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(classes=3, per_class=2, dim=8, steps=160, lr_img=0.1, init_scale=0.01, batch=64)


def true_data(cfg, n=300):
    g = torch.Generator().manual_seed(6)
    y = torch.randint(cfg["classes"], (n,), generator=g)
    centre = torch.randn(cfg["classes"], cfg["dim"], generator=g) * 2
    return centre[y] + torch.randn(n, cfg["dim"], generator=g), y


class SyntheticSet:
    """The images that are learned, with fixed labels."""

    def __init__(self, cfg):
        n = cfg["classes"] * cfg["per_class"]
        self.images = self.start(n, cfg["dim"], cfg["init_scale"])
        self.labels = torch.arange(cfg["classes"]).repeat_interleave(cfg["per_class"])

    @staticmethod
    def start(n, dim, scale):
        noise = torch.randn(n, dim, requires_grad=True)
        return noise * scale

    def optimizer(self, lr):
        return torch.optim.SGD([self.images], lr=lr, momentum=0.5)


def fresh_net(cfg):
    return nn.Sequential(nn.Linear(cfg["dim"], 16), nn.Tanh(), nn.Linear(16, cfg["classes"]))


def gradients(net, x, y, create_graph=False):
    loss = F.cross_entropy(net(x), y)
    return torch.autograd.grad(loss, list(net.parameters()), create_graph=create_graph)


def distance(ga, gb):
    return sum(1 - F.cosine_similarity(a.flatten(), b.flatten(), dim=0) for a, b in zip(ga, gb))


def distill(cfg):
    x, y = true_data(cfg)
    syn = SyntheticSet(cfg)
    opt = syn.optimizer(cfg["lr_img"])
    recent = []
    for step in range(cfg["steps"]):
        net = fresh_net(cfg)
        idx = torch.randint(len(x), (cfg["batch"],))
        target = gradients(net, x[idx], y[idx])
        got = gradients(net, syn.images, syn.labels, create_graph=True)
        loss = distance(got, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        recent.append(loss.item())
        if (step + 1) % 40 == 0:
            print(f"step {step + 1} mean mismatch of the last 40 {sum(recent[-40:]) / 40:.3f}")
    return syn


if __name__ == "__main__":
    torch.manual_seed(0)
    distill(CFG)
