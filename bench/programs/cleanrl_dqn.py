"""DQN in one file, as in CleanRL: a replay buffer and a target network."""

import random

import gymnasium as gym
import numpy as np
import torch
from _digest import digest
from torch import nn

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
env = gym.make("CartPole-v1")


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.network(x)


q_network, target_network = QNetwork(), QNetwork()
optimizer = torch.optim.Adam(q_network.parameters(), lr=2.5e-4)
target_network.load_state_dict(q_network.state_dict())
replay = []
obs, _ = env.reset(seed=0)
for step in range(1500):
    if random.random() < max(0.05, 1 - step / 700):
        action = random.randrange(2)
    else:
        action = torch.argmax(q_network(torch.tensor(obs).unsqueeze(0)), dim=1).item()
    following, reward, ended, cut, _ = env.step(action)
    replay.append((obs, action, reward, following, ended))
    obs = env.reset()[0] if ended or cut else following
    if step > 200 and step % 4 == 0:
        batch = [replay[i] for i in np.random.randint(0, len(replay), 64)]
        s, a, r, n, d = (torch.tensor(np.array(part), dtype=torch.float32) for part in zip(*batch, strict=True))
        with torch.no_grad():
            target_max, _ = target_network(n).max(dim=1)
            td_target = r + 0.99 * target_max * (1 - d)
        old_val = q_network(s).gather(1, a.long().unsqueeze(1)).squeeze()
        loss = nn.functional.mse_loss(td_target, old_val)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if step % 200 == 0:
        for target, source in zip(target_network.parameters(), q_network.parameters(), strict=True):
            target.data.copy_(0.9 * source.data + 0.1 * target.data)
print(loss.item())
print(digest(q_network, target_network))
