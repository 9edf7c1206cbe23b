# code: BS201
# variable: left and right
# cause: guess = probe(torch.cat([left, right], dim=1))
# fix: `guess = probe(torch.cat([left.detach(), right.detach()], dim=1))`
import torch
from torch import nn

torch.manual_seed(0)
encoder, probe = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 4)), nn.Linear(8, 3)
main, aside = torch.optim.SGD(encoder.parameters(), lr=0.05), torch.optim.SGD(probe.parameters(), lr=0.05)

for _ in range(5):
    x, y = torch.randn(12, 5), torch.randint(0, 3, (12,))
    left, right = encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x))
    closeness = (left - right).square().mean() - 0.1 * left.std() - 0.1 * right.std()
    main.zero_grad()
    closeness.backward()
    main.step()

    guess = probe(torch.cat([left, right], dim=1))
    probing = nn.functional.cross_entropy(guess, y)
    aside.zero_grad()
    probing.backward()
    aside.step()
