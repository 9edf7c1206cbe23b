# code: BS212
# variable: cost
# cause: mismatch = torch.mean((spectrum - measured).pow(2))
# fix: torch.mean((spectrum - measured).abs().square())
import torch

torch.manual_seed(1)


def data_term(image, measured):
    spectrum = torch.fft.fft2(image)
    mismatch = torch.mean((spectrum - measured).pow(2))
    return mismatch


image = torch.randn(8, 8, requires_grad=True)
measured = torch.fft.fft2(torch.rand(8, 8))
optimizer = torch.optim.Adam([image], lr=0.05)
for _ in range(10):
    cost = data_term(image, measured) + 1e-3 * image.diff(dim=0).abs().sum()
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
