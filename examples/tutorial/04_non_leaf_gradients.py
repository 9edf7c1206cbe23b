"""Why hidden.grad is None: only leaves keep their gradients, unless retain_grad() asks for one."""

import warnings

import torch

import backsight as bs

x = torch.ones(3, requires_grad=True)
hidden = x * 2
loss = (hidden**2).sum()

# The gradient does pass: it arrives at the operation that made `hidden` (4 for each element), and goes on.
arriving = bs.walk(loss).until(hidden).grad_in[0].value
print(f"arrives at hidden: {arriving.tolist()}")

loss.backward(retain_graph=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch warns of just this
    print(f"x is a leaf: {x.is_leaf}, x.grad {x.grad.tolist()}")
    print(f"hidden is a leaf: {hidden.is_leaf}, hidden.grad {hidden.grad}")

hidden.retain_grad()
loss.backward()
print(f"after retain_grad: hidden.grad {hidden.grad.tolist()}")
