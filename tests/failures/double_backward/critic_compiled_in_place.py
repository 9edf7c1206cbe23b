# code: BS215
# variable: net
# cause: net.compile(**options)
# fix: Leave out `net.compile(**options)` on line 21
import torch
import torch._dynamo
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.score = nn.Linear(3, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.score(self.hidden(x).tanh())


def prepared(net, options):
    net.train()
    net.compile(**options)
    return net


def penalty(critic, real, fake):
    mixed = (0.3 * real + 0.7 * fake).requires_grad_()
    score = critic(mixed)
    slopes = torch.autograd.grad(score.sum(), mixed, create_graph=True)[0]
    return (slopes.norm(dim=1) - 1).square().mean()


critic = prepared(Critic(), {"backend": "aot_eager"})
real, fake = torch.randn(4, 3), torch.randn(4, 3)
loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake)
loss.backward()
