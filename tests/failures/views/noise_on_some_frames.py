# code: BS209
# variable: frame
# cause: frame[:, :2] = 0
# fix: put `parts.append(frame)` at the end of the loop
import torch
from torch import nn

torch.manual_seed(0)
project, read = nn.Linear(3, 4), nn.GRU(4, 5)
optimizer = torch.optim.SGD([*project.parameters(), *read.parameters()], lr=0.1)
for _ in range(2):
    frames = project(torch.randn(6, 2, 3))
    for k, frame in enumerate(frames):
        dropped = k % 3 == 0
        if dropped:
            frame[:, :2] = 0
    loss = read(frames)[0].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
