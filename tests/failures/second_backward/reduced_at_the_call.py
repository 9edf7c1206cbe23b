# code: BS201
# variable: actor.mean
# cause: critic.mean().backward()
# fix: (actor.mean() + critic.mean()).backward()
import torch

m = torch.nn.Linear(3, 2)
delta = torch.tanh(m(torch.randn(4, 3)))
actor, critic = delta[:, 0] * 2, delta.pow(2)
actor.mean().backward()
critic.mean().backward()
