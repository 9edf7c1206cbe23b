"""The mean squared error of a linear model: its gradient is a product of Jacobians, and here they are."""

import torch
from torch.autograd.functional import jacobian

import backsight as bs

torch.manual_seed(0)
inputs, targets = torch.randn(4, 3), torch.randn(4, 2)
weight = torch.randn(3, 2, requires_grad=True)

predicted = inputs @ weight
loss = ((predicted - targets) ** 2).mean()

# Every step multiplies the gradient that arrives with one local Jacobian: (d output / d input), elements in rows.
gradient = torch.ones(1)
for step in bs.walk(loss):
    if step.node.leaf is None:
        local = step.jacobian[0]
        gradient = gradient @ local.matrix
        print(f"{step.node.op:<5} {local}")
        print(f"      {step.check}")

# torch.autograd.functional gives the same Jacobians with all dimensions apart: output dimensions first. To multiply
# them, the input dimensions of one are summed with the output dimensions of the next; a transpose of these axes gives
# the layout of a gradient, which is that of the weight.
outer = jacobian(lambda p: ((p - targets) ** 2).mean(), predicted.detach())  # 4×2
inner = jacobian(lambda w: inputs @ w, weight.detach())  # 4×2×3×2
product = torch.tensordot(outer, inner, dims=2)  # 3×2
permuted = (inner.permute(2, 3, 0, 1).reshape(6, 8) @ outer.reshape(8)).reshape(3, 2)

loss.backward()
for name, found in (("walked", gradient.reshape(3, 2)), ("tensordot", product), ("permuted", permuted)):
    print(f"{name:<9} equals weight.grad: {torch.allclose(found, weight.grad)}")
