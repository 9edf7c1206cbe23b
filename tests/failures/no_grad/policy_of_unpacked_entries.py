# code: BS203
# variable: loss
# cause: log_probs = torch.tensor([p for _, p, _ in memory])
# fix: torch.stack
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

    def act(self, state):
        chosen = torch.distributions.Categorical(logits=self.policy(torch.tensor(state)))
        action = chosen.sample()
        return action.item(), chosen.log_prob(action)


def learn(agent, memory, optimizer):
    states = torch.tensor([s for s, _, _ in memory])
    log_probs = torch.tensor([p for _, p, _ in memory])
    returns = torch.tensor([r for _, _, r in memory])
    baseline = agent.value(states).squeeze(-1)
    loss = -log_probs @ (returns - baseline.detach())
    optimizer.zero_grad()
    (returns - baseline).pow(2).mean().backward()
    loss.backward()
    optimizer.step()


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
for _ in range(3):
    memory = []
    for k in range(5):
        state = [0.1 * k, 0.2, 0.3, 1.0]
        action, log_prob = agent.act(state)
        memory.append((state, log_prob, float(action)))
    learn(agent, memory, optimizer)
