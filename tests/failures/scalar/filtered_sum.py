# code: BS212
# variable: loss
# cause: loss.backward()
# fix: Take the magnitude of the elements that loss is computed from
import torch
from torch import nn


class SpectralFilter(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return (torch.fft.rfft(x) * torch.fft.rfft(self.kernel)).sum(-1)


model = SpectralFilter()
loss = sum([model.kernel.square().sum(), model(torch.randn(3, 8)).mean()])
loss.backward()
