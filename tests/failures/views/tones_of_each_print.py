# code: BS209
# variable: tone
# cause: tone.clamp_(low, high)
# fix: Let spread return a new tensor
import torch
from torch import nn


def spread(low, tone, high=1.0):
    tone.clamp_(low, high)
    tone.sub_(low).div_(high - low)


class Darkroom(nn.Module):
    def __init__(self):
        super().__init__()
        self.lens = nn.Conv2d(1, 2, 3, padding=1)
        self.grade = nn.Linear(2, 1)

    def forward(self, prints):
        tones = torch.sigmoid(self.lens(prints))
        for each in tones.unbind(0):
            spread(0.1, each, high=0.9)
        return self.grade(tones.mean(dim=(2, 3)))


torch.manual_seed(0)
room = Darkroom()
optimizer = torch.optim.SGD(room.parameters(), lr=0.1)
prints, wanted = torch.rand(6, 1, 5, 5), torch.rand(6, 1)
for _ in range(3):
    loss = (room(prints) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
