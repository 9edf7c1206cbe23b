# code: BS226
# variable: broken
# cause: if broken:
# fix: put `checked("state", states)` above line 24
import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def checked(name, value):
    broken = value.isnan().any()
    if broken:
        raise ValueError(f"{name} has NaN")


class Critic(nn.Linear):
    def forward(self, state):
        # a safeguard of long ago
        checked("state", state)
        return super().forward(state).squeeze(-1)


def gradients(critic, states, returns):
    return vmap(grad(error), in_dims=(None, None, 0, 0))(dict(critic.named_parameters()), critic, states, returns)


def error(weights, critic, state, target):
    return (functional_call(critic, weights, (state,)) - target).square()


gradients(Critic(4, 1), torch.randn(6, 4), torch.randn(6))
