# code: BS201
# variable: adv
# cause: return {"policy": -(logp * adv).sum(), "value": adv.pow(2).sum()}
# fix: adv.detach()
import torch
from torch import nn
class A2C(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.actor_optim = torch.optim.Adam(self.actor.parameters())
        self.critic_optim = torch.optim.Adam(self.critic.parameters())
    def advantages(self, rewards, values):
        out, last = [], 0.0
        for t in reversed(range(len(rewards))):
            last = rewards[t] + 0.9 * last
            out.insert(0, last - values[t])
        return torch.stack(out)
    def update(self, states, actions, rewards):
        values = self.critic(states).squeeze(-1)
        logits = self.actor(states)
        logp = torch.log_softmax(logits, -1).gather(1, actions[:, None]).squeeze(1)
        adv = self.advantages(rewards, values)
        losses = self.losses(logp, adv)
        self.apply_losses(**losses)
    def losses(self, logp, adv):
        return {"policy": -(logp * adv).sum(), "value": adv.pow(2).sum()}
    def apply_losses(self, policy, value):
        self.critic_optim.zero_grad()
        value.backward()
        self.critic_optim.step()
        self.actor_optim.zero_grad()
        policy.backward()
        self.actor_optim.step()
agent = A2C()
for _ in range(2):
    agent.update(torch.randn(5, 4), torch.randint(0, 3, (5,)), torch.randn(5))
