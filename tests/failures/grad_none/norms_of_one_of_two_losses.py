# code: BS213
# variable: generator.weight
# cause: return [p.grad.norm().item() for p in parts]
# fix: if p.grad is not None
import torch
from torch import nn

generator, discriminator = nn.Linear(3, 4), nn.Linear(4, 1)
parts = [*generator.parameters(), *discriminator.parameters()]
optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (generator, discriminator)]


def norms():
    return [p.grad.norm().item() for p in parts]


def judge(fake):
    loss = discriminator(fake.detach()).square().mean()
    optimizers[1].zero_grad()
    loss.backward()
    optimizers[1].step()
    print(norms())


def generate(fake):
    loss = (1 - discriminator(fake)).square().mean()
    optimizers[0].zero_grad()
    loss.backward()
    optimizers[0].step()
    print(norms())


for _ in range(2):
    fake = generator(torch.randn(5, 3))
    judge(fake)
    generate(fake)
