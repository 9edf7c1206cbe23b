# code: BS202
# variable: policy_optimizer
# cause: policy_optimizer.step()
# fix: after
import torch
from torch import nn

body, policy, value = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
policy_optimizer = torch.optim.SGD([*body.parameters(), *policy.parameters()], lr=0.1)
value_optimizer = torch.optim.SGD([*body.parameters(), *value.parameters()], lr=0.1)


def update(states, returns):
    hidden = torch.tanh(body(states))
    hidden = hidden * hidden.sigmoid()
    advantage = returns - value(hidden)
    policy_loss = -(policy(hidden) * advantage.detach()).mean()
    policy_optimizer.zero_grad()
    policy_loss.backward(retain_graph=True)
    policy_optimizer.step()
    value_loss = (advantage * body(states).mean()).square().mean()
    value_optimizer.zero_grad()
    value_loss.backward()
    value_optimizer.step()


for _ in range(3):
    update(torch.randn(6, 4, requires_grad=True), torch.randn(6, 1))
