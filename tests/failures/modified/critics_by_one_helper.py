# code: BS202
# variable: q_opt.step()
# cause: update(q_opt, q_loss, q.parameters())
# fix: Move line 27, `actor_loss = -q(torch.cat([s, actor(s)], 1)).mean()`, below line 28
import torch
from torch import nn


def update(optimizer, loss, weights):
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


torch.manual_seed(0)
actor, q = mlp(3, 2), mlp(5, 1)
actor_opt = torch.optim.Adam(actor.parameters())
q_opt = torch.optim.Adam(q.parameters())
for _ in range(3):
    s, a, r = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 1)
    q_loss = (q(torch.cat([s, a], 1)) - r).square().mean()
    actor_loss = -q(torch.cat([s, actor(s)], 1)).mean()
    update(q_opt, q_loss, q.parameters())
    update(actor_opt, actor_loss, actor.parameters())
