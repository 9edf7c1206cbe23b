# code: BS200
# variable: mix(x, gain)
# cause: class Mix(torch.autograd.Function):
# fix: `mix = lambda *inputs: Mix.apply(*inputs, 3, 0.5)`
"""Bands of a sound, weighted by a gain that is trained and a window that is not."""

import torch


class Mix(torch.autograd.Function):
    def __init__(self, bands, decay):
        self.window = torch.tensor([decay ** k for k in range(bands)])

    def forward(self, x, gain):
        self.save_for_backward(x, gain)
        return (x * self.window * gain).sum(-1)

    def backward(self, grad_output):
        x, gain = self.saved_tensors
        along = grad_output.unsqueeze(-1) * self.window
        grad_x, grad_gain = along * gain, (along * x).sum(0)
        return grad_x, grad_gain


mix = Mix(3, 0.5)
net, gain = torch.nn.Linear(6, 3), torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([*net.parameters(), gain], lr=0.01)
for step in range(3):
    sound = torch.randn(8, 6)
    x = net(sound)
    loss = (mix(x, gain) - sound[:, 0]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
