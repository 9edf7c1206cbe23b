# code: BS212
# variable: total
# cause: power = response * torch.conj(response)
# fix: power = response.abs() ** 2
import torch


def mirror(taps):
    response = torch.fft.fft(taps, 16)
    power = response * torch.conj(response)
    return ((power + torch.roll(power, 8) - 2) ** 2).sum()


def penalties(taps):
    yield (taps.sum() - 2**0.5) ** 2
    yield mirror(taps)


taps = torch.randn(6, requires_grad=True)
for _ in range(3):
    total = sum(penalties(taps))
    total.backward()
    taps = (taps - 0.0001 * taps.grad).detach().requires_grad_()
