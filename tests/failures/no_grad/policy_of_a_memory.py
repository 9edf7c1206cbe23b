# code: BS203
# variable: policy_loss
# cause: log_probs = torch.tensor([entry[1] for entry in memory])
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
    states = torch.tensor([entry[0] for entry in memory])
    log_probs = torch.tensor([entry[1] for entry in memory])
    returns = torch.tensor([entry[2] for entry in memory])
    advantage = returns - agent.value(states).squeeze(-1)
    policy_loss = -(log_probs * advantage.detach()).mean()
    optimizer.zero_grad()
    advantage.pow(2).mean().backward()
    policy_loss.backward()
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
