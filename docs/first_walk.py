"""The walk that the README shows: the first example of most texts on automatic differentiation, node by node."""

import torch

import backsight as bs

x1 = torch.tensor(0.5, requires_grad=True)
x2 = torch.tensor(0.75, requires_grad=True)
w = torch.log(x1 * x2) * torch.sin(x2)

walk = bs.walk(w).run()
print(walk, end="\n\n")
print(walk.steps[0])
