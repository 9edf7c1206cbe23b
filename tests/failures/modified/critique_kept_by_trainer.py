# code: BS202
# variable: self.critic.2.weight
# cause: self.critic_optimizer.step()
# fix: put `self.critique = self.critic(self.drawing)` below line 34
import torch
from torch import nn

torch.manual_seed(12)


class Studio:
    """An artist and a critic, who learn in turn from one drawing."""

    def __init__(self):
        self.artist = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 9))
        self.critic = nn.Sequential(nn.Linear(9, 16), nn.SiLU(), nn.Linear(16, 1))
        self.artist_optimizer = torch.optim.Adam(self.artist.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def draw(self, idea):
        self.drawing = self.artist(idea)
        self.critique = self.critic(self.drawing)

    def teach_critic(self, masterpiece):
        (self.critique.mean() - self.critic(masterpiece).mean()).backward(retain_graph=True)

    def teach_artist(self):
        praise = -self.critique.mean() + 1e-2 * self.drawing.square().mean()
        praise.backward()

    def day(self, idea, masterpiece):
        self.draw(idea)
        self.teach_critic(masterpiece)
        self.critic_optimizer.step()
        self.critic_optimizer.zero_grad()
        self.teach_artist()
        self.artist_optimizer.step()


studio = Studio()
for _ in range(3):
    studio.day(torch.randn(5, 4), torch.randn(5, 9))
