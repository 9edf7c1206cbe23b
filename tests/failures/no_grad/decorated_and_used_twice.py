# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Remove @torch.no_grad() from embed; it belongs
# varied: two = embed(b)
# or: with torch.no_grad():\n    two = embed(b)
import torch

model = torch.nn.Linear(3, 2)


@torch.no_grad()
def embed(x):
    return model(x)


def step(a, b):
    one = embed(a)
    two = embed(b)
    loss = (one * two).sum()
    loss.backward()


step(torch.ones(4, 3), torch.ones(4, 3))
