# code: BS212
# variable: loss
# cause: return torch.sum((output - wanted).pow(2), dtype=wanted.dtype).to(torch.complex128) / wanted.numel()
# fix: `return torch.sum((output - wanted).abs().square()) / wanted.numel()`
import torch

torch.manual_seed(0)


def distance(output, wanted):
    return torch.sum((output - wanted).pow(2), dtype=wanted.dtype).to(torch.complex128) / wanted.numel()


mixing = torch.randn(3, 3, dtype=torch.complex64, requires_grad=True)
optimizer = torch.optim.Adam([mixing], lr=1e-2)
for _ in range(3):
    sources = torch.randn(5, 3, dtype=torch.complex64)
    loss = distance(sources @ mixing, sources.conj())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
