# code: BS208
# variable: critic.bias
# cause: surprise = target - critic(state)
# fix: Make one number of surprise
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Linear(4, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(4):
    state, target = torch.randn(1, 4), torch.randn(1, 1)
    with torch.no_grad():
        surprise = target - critic(state)
    optimizer.zero_grad()
    critic(state).sum().backward()
    for weight in critic.parameters():
        step = -surprise * weight.grad / 2
        weight.grad = step
    optimizer.step()
