# code: BS203
# variable: now
# cause: weight = (memory["old"] - memory["old"]).exp()
# fix: now
import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))

    def score(self, states, moves):
        return self.net(states).log_softmax(-1).gather(-1, moves[:, None]).squeeze(-1)


@torch.no_grad()
def play(actor, count):
    states = torch.randn(count, 3)
    moves = torch.randint(0, 4, (count,))
    return {"states": states, "moves": moves, "old": actor.score(states, moves), "gain": torch.randn(count)}


def objective(actor, memory):
    now = actor.score(memory["states"], memory["moves"])
    weight = (memory["old"] - memory["old"]).exp()
    clipped = weight.clamp(0.8, 1.2)
    return -torch.minimum(weight * memory["gain"], clipped * memory["gain"]).mean(), now.exp().mean().item()


actor = Actor()
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
for _ in range(3):
    memory = play(actor, 16)
    loss, certainty = objective(actor, memory)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
