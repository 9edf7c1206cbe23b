# code: BS202
# variable: s
# cause: s.clamp_(max=2)
# fix: Modify a copy: put s =
import torch


def scaled(h):
    s = torch.exp(h)
    s.clamp_(max=2)
    return s


def step(model, x):
    return scaled(model(x)).mean()


loss = step(torch.nn.Linear(4, 4), torch.randn(3, 4))
loss.backward()
