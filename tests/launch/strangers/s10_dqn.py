import copy
import random
from collections import deque
import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)
GAMMA, BATCH, SYNC = 0.97, 32, 40


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 32)
        self.fc2 = nn.Linear(32, 2)

    def forward(self, s):
        return self.fc2(torch.relu(self.fc1(s)))


class Env:
    def reset(self):
        self.s = torch.empty(4).uniform_(-0.1, 0.1)
        self.t = 0
        return self.s.clone()

    def step(self, a):
        force = 0.2 if a == 1 else -0.2
        x, v, th, w = self.s.tolist()
        w = w + 0.3 * th - 0.5 * force
        th = th + 0.3 * w
        v = v + force
        x = x + 0.1 * v
        self.s = torch.tensor([x, v, th, w])
        self.t += 1
        done = abs(th) > 0.6 or abs(x) > 3 or self.t > 60
        return self.s.clone(), 1.0, done


class Agent:
    def __init__(self):
        self.policy_net = QNet()
        self.target_net = copy.deepcopy(self.policy_net)
        self.memory = deque(maxlen=2000)
        params = list(self.policy_net.parameters()) + list(self.target_net.parameters())
        self.optimizer = torch.optim.Adam(params, lr=2e-3)
        self.eps = 0.9

    def act(self, s):
        if random.random() < self.eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.policy_net(s).argmax())

    def learn(self):
        s, a, r, s2, d = zip(*random.sample(self.memory, BATCH))
        s, s2 = torch.stack(s), torch.stack(s2)
        a, r, d = torch.tensor(a), torch.tensor(r), torch.tensor(d, dtype=torch.float32)
        q = self.policy_net(s).gather(1, a[:, None]).squeeze(1)
        next_q = self.target_net(s2).max(1).values
        expected = r + GAMMA * next_q * (1 - d)
        loss = F.smooth_l1_loss(q, expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), q.mean().item()


agent, env = Agent(), Env()
learned, s = 0, env.reset()
lengths = []
while learned < 280:
    a = agent.act(s)
    s2, r, d = env.step(a)
    agent.memory.append((s, a, r, s2, d))
    s = s2
    if d:
        lengths.append(env.t)
        s = env.reset()
    if len(agent.memory) > 100:
        loss, q = agent.learn()
        learned += 1
        agent.eps = max(0.05, agent.eps * 0.99)
        if learned % SYNC == 0:
            drift = (agent.policy_net.fc1.weight - agent.target_net.fc1.weight).abs().max().item()
            agent.target_net.load_state_dict(agent.policy_net.state_dict())
            print(f'update {learned} loss {loss:.4f} meanQ {q:.2f} len {sum(lengths[-10:]) / 10:.1f} drift {drift:.4f}')
