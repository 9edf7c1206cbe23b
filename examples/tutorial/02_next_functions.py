"""y = x**2 + 1 and z = 3 * y: the chain that backward follows, by hand and by name."""

import torch

import backsight as bs

x = torch.tensor(2.0, requires_grad=True)
y = x**2 + 1
z = 3 * y

# Every result knows the operation that made it, and each operation those behind its inputs.
node = z.grad_fn
while node is not None:
    print(type(node).__name__)
    node = node.next_functions[0][0] if node.next_functions else None

# The last one, AccumulateGrad, is where x waits: it adds what arrives to x.grad.
graph = bs.graph(z)
print(" <- ".join(str(node) for node in graph.path(z, x)))

# The chain rule, step by step: dz/dy = 3, dy/d(x**2) = 1, d(x**2)/dx = 2x = 4.
for step in bs.walk(z):
    if step.node.leaf is None:
        factor = step.jacobian[0].matrix.item()
        print(f"{step.node.op}: {step.grad_in[0].value.item():g} * {factor:g} = {step.grad_out[0].value.item():g}")

z.backward()
print(f"x.grad is {x.grad.item():g}")
