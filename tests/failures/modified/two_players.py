# code: BS202
# variable: players["one"].net.2.weight
# cause: players[name].optimizer.step()
# fix: after
import torch
from torch import nn


class Player:
    def __init__(self, size):
        self.net = nn.Sequential(nn.Linear(size, 8), nn.ReLU(), nn.Linear(8, size))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)


players = {"one": Player(3), "opponent": Player(3)}
state = torch.randn(5, 3)
moves = {name: player.net(state) for name, player in players.items()}
answers = {
    "one": players["opponent"].net(moves["one"]),
    "opponent": players["one"].net(moves["opponent"]),
}
losses = {
    "one": answers["one"].square().mean(),
    "opponent": (answers["opponent"] - 1).square().mean(),
}
for name in ("one", "opponent"):
    players[name].optimizer.zero_grad()
    losses[name].backward()
    players[name].optimizer.step()
