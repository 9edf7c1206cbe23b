# code: BS220
# variable: guess
# cause: guess = scores.argmax(dim=-1)
# fix: loss = torch.nn.functional.cross_entropy(scores, ripeness)
import torch
from torch import nn

torch.manual_seed(0)

pears = torch.randn(40, 5)
ripeness = torch.randint(0, 3, (40,))
grader = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(grader.parameters(), lr=0.05)


def train(rounds):
    for turn in range(rounds):
        scores = grader(pears)
        guess = scores.argmax(dim=-1)
        guess.requires_grad = True
        loss = nn.functional.mse_loss(guess, ripeness)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(turn, loss.item(), (guess == ripeness).float().mean().item())


train(4)
