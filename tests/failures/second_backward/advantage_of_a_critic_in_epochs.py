# code: BS201
# variable: gains
# cause: gains, goals = discounted(reward, value)
# fix: gains.detach()
import torch
from torch import nn
def discounted(reward, value, decay=0.9):
    later, out = torch.zeros(()), []
    for r, v in zip(reward.flip(0), value.flip(0)):
        later = r + decay * later
        out.insert(0, later - v)
    gains = torch.stack(out)
    return gains, (gains + value).detach()
pilot = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 3))
judge = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 1))
pilot_adam = torch.optim.Adam(pilot.parameters(), lr=1e-3)
judge_adam = torch.optim.Adam(judge.parameters(), lr=1e-3)
for flight in range(2):
    seen, reward, chosen = torch.randn(12, 5), torch.randn(12), torch.randint(0, 3, (12,))
    value = judge(seen).squeeze(-1)
    gains, goals = discounted(reward, value)
    with torch.no_grad():
        before = torch.log_softmax(pilot(seen), -1)[range(12), chosen]
    for epoch in range(3):
        now = torch.log_softmax(pilot(seen), -1)[range(12), chosen]
        ratio = (now - before).exp()
        free = ratio * gains
        bounded = ratio.clamp(0.8, 1.2) * gains
        pilot_loss = -torch.min(free, bounded).mean()
        pilot_adam.zero_grad()
        pilot_loss.backward()
        pilot_adam.step()
        judge_loss = (judge(seen).squeeze(-1) - goals).pow(2).mean()
        judge_adam.zero_grad()
        judge_loss.backward()
        judge_adam.step()
