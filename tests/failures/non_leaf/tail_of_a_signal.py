# code: BS206
# variable: tail
# cause: tail = signal[20:]
# fix: To train this part alone
import torch

torch.manual_seed(0)
signal = torch.randn(32, requires_grad=True)
tail = signal[20:]
known = signal[:20].detach()
optimizer = torch.optim.Adam([tail], lr=0.1)
for _ in range(3):
    whole = torch.cat([known, tail])
    loss = whole.diff().pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
