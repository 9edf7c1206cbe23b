# code: BS200
# variable: SparseAdam
# cause: learner = torch.optim.SparseAdam(list(tower.parameters()), lr=0.01, betas=(0.8, 0.99))
# fix: put `dense.zero_grad()` below line 28 and put `dense.step()` below line 30
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.guests = nn.Embedding(30, 4, sparse=True)
        self.rooms = nn.Embedding(12, 4, sparse=True)
        self.score = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, guest, room):
        return self.score(torch.cat([self.guests(guest), self.rooms(room)], dim=1)).squeeze(1)


def learn(steps):
    torch.manual_seed(0)
    tower = Tower()
    guest, room = torch.randint(0, 30, (64,)), torch.randint(0, 12, (64,))
    stayed = (guest % 3 == room % 3).float()
    learner = torch.optim.SparseAdam(list(tower.parameters()), lr=0.01, betas=(0.8, 0.99))
    for _ in range(steps):
        loss = nn.functional.binary_cross_entropy_with_logits(tower(guest, room), stayed)
        learner.zero_grad()
        loss.backward()
        learner.step()
    return loss


print(learn(5))
