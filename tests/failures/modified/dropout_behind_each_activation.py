# code: BS202
# variable: critic.layers.5
# cause: return self.layers(x).squeeze(-1)
# fix: The same applies to critic.layers[2]
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Dropout(0.2, inplace=True), nn.Linear(6, 6), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.layers(x)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 8),
            nn.Sigmoid(),
            nn.Dropout(0.4, inplace=True),
            nn.Linear(8, 8),
            nn.Tanh(),
            nn.Dropout(
                0.4,
                inplace=True,
            ),
            nn.Linear(8, 1),
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


torch.manual_seed(0)
encoder, critic = Encoder(), Critic()
optimizer = torch.optim.Adam([*encoder.parameters(), *critic.parameters()])
for _ in range(2):
    loss = critic(encoder(torch.randn(7, 6))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
