# code: BS201
# variable: entropy
# cause: weight_loss = (log_weight * (entropy - target)).mean()
# fix: entropy.detach()
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy, values = nn.Linear(3, 4), torch.randn(4)
log_weight, target = torch.zeros((), requires_grad=True), 0.7
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
weight_optimizer = torch.optim.Adam([log_weight], lr=1e-3)


def update(observations):
    choices = Categorical(logits=policy(observations))
    entropy = choices.entropy()
    policy_loss = -(choices.probs @ values + log_weight.exp().detach() * entropy).mean()
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()
    weight_loss = (log_weight * (entropy - target)).mean()
    weight_optimizer.zero_grad()
    weight_loss.backward()
    weight_optimizer.step()


for _ in range(3):
    update(torch.randn(8, 3))
