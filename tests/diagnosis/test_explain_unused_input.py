"""BS204: which input a gradient was asked for in vain, and what stands in its place."""

from failures import explained

SETUP = """
from torch import nn
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(10, 2, requires_grad=True)
t = torch.rand(10, 2, requires_grad=True)
"""


def test_code_without_source_still_names_the_input():
    finding = explained(f"{SETUP}u = net(x)\ntorch.autograd.grad(u.sum(), (x, t))\n", readable=False)
    assert "t is not used to compute it" in finding.title
    assert finding.exact
