# code: BS214
# variable: spots
# cause: @torch.inference_mode()
# fix: Use torch.no_grad() instead of torch.inference_mode() on line 25
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class Gambler(nn.Module):
    def __init__(self):
        super().__init__()
        self.bets = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 4))

    def chances(self, spots):
        return Categorical(logits=self.bets(spots))


gambler = Gambler()
optimizer = torch.optim.Adam(gambler.parameters(), lr=0.01)


@torch.inference_mode()
def play(rounds):
    spots = torch.rand(rounds, 3)
    chances = gambler.chances(spots)
    bets = chances.sample()
    return spots, bets, chances.log_prob(bets), (bets == 2).float()


for evening in range(3):
    spots, bets, before, won = play(20)
    for again in range(3):
        after = gambler.chances(spots).log_prob(bets)
        loss = -((after - before).exp() * (won - 0.25)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(evening, loss.item())
