# code: BS212
# variable: loss
# cause: chosen = logp[:, actions]
# fix: chosen = logp.gather(1, actions.unsqueeze(1)).squeeze(1)
import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Linear(4, 3)
optimizer = torch.optim.Adam(policy.parameters())
for step in range(2):
    states, returns = torch.randn(6, 4), torch.randn(6)
    logp = policy(states).log_softmax(dim=1)
    actions = torch.multinomial(logp.exp(), 1).squeeze(1)
    chosen = logp[:, actions]
    loss = -(chosen * returns)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
