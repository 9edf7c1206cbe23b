# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: above line 9
import torch
from torch import nn


def episodes(policy, length):
    while True:
        with torch.no_grad():
            states = torch.randn(length, 4)
            actions = policy(states).softmax(1).multinomial(1)
            yield states, actions, states.sum(1, keepdim=True) * (actions - 0.5)


policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters())
stream = episodes(policy, 10)
for update in range(3):
    states, actions, returns = next(stream)
    loss = -(policy(states).log_softmax(1).gather(1, actions) * returns).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
