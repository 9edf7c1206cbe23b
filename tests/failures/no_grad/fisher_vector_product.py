# code: BS203
# variable: self.flat(kl)
# cause: slope = self.flat(kl)
# fix: slope = self.flat(kl, second=True)
import torch
from torch import nn


class NaturalStep:
    """Fisher-vector products for a trust region"""

    def __init__(self, policy, damping=0.1):
        self.policy, self.damping = policy, damping

    def flat(self, value, second=False):
        parts = torch.autograd.grad(value, self.policy.parameters(), create_graph=second, retain_graph=True)
        return torch.cat([part.flatten() for part in parts])

    def product(self, states, vector):
        logits = self.policy(states)
        kl = (logits.log_softmax(1).exp() * (logits - logits.detach())).sum(1).mean()
        slope = self.flat(kl)
        return self.flat(slope @ vector) + self.damping * vector


policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
size = sum(p.numel() for p in policy.parameters())
print(NaturalStep(policy).product(torch.randn(10, 3), torch.randn(size)).norm())
