# code: BS200
# variable: Found dtype Double but expected Float
# cause: q_loss = criterion(q, wanted.detach())
# fix: q_loss = criterion(q, wanted.to(q.dtype).detach())
import numpy as np
import torch
from torch import nn

critic, target = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
criterion = nn.HuberLoss()
episode = [(np.full(4, 0.1 * k, dtype=np.float32), -0.5 * k) for k in range(16)]


def update(batch):
    states = torch.tensor(np.array([state for state, _ in batch]))
    rewards = torch.tensor(np.array([reward for _, reward in batch])).unsqueeze(1)
    wanted = rewards + 0.99 * target(states)
    q = critic(states)
    q_loss = criterion(q, wanted.detach())
    optimizer.zero_grad()
    q_loss.backward()
    optimizer.step()


for _ in range(2):
    update(episode)
