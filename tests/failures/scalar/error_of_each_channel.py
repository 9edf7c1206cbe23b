# code: BS212
# variable: error
# cause: error = (decoder(codes) - pictures).abs().mean(dim=(0, 2, 3))
# fix: does not grow with the number of elements
import torch
from torch import nn

torch.manual_seed(0)
decoder = nn.Conv2d(2, 3, 3, padding=1)
optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
for _ in range(3):
    codes, pictures = torch.randn(16, 2, 8, 8), torch.rand(16, 3, 8, 8)
    error = (decoder(codes) - pictures).abs().mean(dim=(0, 2, 3))
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
