# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Remove @torch.no_grad() from values, and put `with torch.no_grad():` around
import torch
from torch import nn

torch.manual_seed(0)


class Player:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.net.parameters())

    @torch.no_grad()
    def values(self, places):
        return self.net(places)

    def move(self, place):
        return self.values(place).argmax().item()

    def learn(self, place, moved, reward, after):
        chosen = self.values(place)[torch.arange(len(moved)), moved]
        target = reward + 0.9 * self.values(after).max(1).values
        loss = nn.functional.smooth_l1_loss(chosen, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


player = Player()
moves = torch.tensor([player.move(torch.randn(3)) for _ in range(4)])
player.learn(torch.randn(4, 3), moves, torch.ones(4), torch.randn(4, 3))
