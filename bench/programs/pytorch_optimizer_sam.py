"""SAM's two passes, Lookahead, and a few optimizers of others' making."""

import torch
from _digest import digest
from pytorch_optimizer import SAM, Lion, Lookahead, Prodigy, load_optimizer
from torch import nn

x = torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
y = x[:, :3].argmax(dim=1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))


model = network()
sam = SAM(model.parameters(), torch.optim.SGD, lr=0.1, rho=0.05)
for _ in range(20):
    nn.functional.cross_entropy(model(x), y).backward()
    sam.first_step(zero_grad=True)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    sam.second_step(zero_grad=True)
print("sam", loss.item(), digest(model))

makers = {
    "lion": lambda p: Lion(p, lr=1e-3),
    "lookahead": lambda p: Lookahead(load_optimizer("ranger21")(p, num_iterations=20, lr=1e-3)),
    "prodigy": lambda p: Prodigy(p),
    "adan": lambda p: load_optimizer("adan")(p, lr=1e-3),
    "shampoo": lambda p: load_optimizer("shampoo")(p, lr=1e-2),
}
for name, make in makers.items():
    model = network()
    optimizer = make(model.parameters())
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(name, loss.item(), digest(model))
