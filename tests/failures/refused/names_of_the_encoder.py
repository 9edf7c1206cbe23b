# code: BS200
# variable: 4 of the 6 parameters
# cause: trained = [(name, p) for name, p in encoder.named_parameters() if p.dim()]
# fix: trained = [p for name, p in encoder.named_parameters() if p.dim()]
import torch
from torch import nn

encoder, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), nn.Linear(3, 1)
trained = [(name, p) for name, p in encoder.named_parameters() if p.dim()]
trained.extend(head.parameters())
optimizer = torch.optim.AdamW(trained, lr=1e-2)
for _ in range(3):
    loss = head(encoder(torch.randn(16, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
