"""Four ways to keep an operation out of the graph: detach, requires_grad=False, no_grad as a block and as decorator."""

import torch

import backsight as bs

x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)


def leaves(y):
    """Return the names of what the gradient of `y` reaches; nothing for a result without a graph."""
    return [leaf.name for leaf in bs.graph(y).leaves] if y.requires_grad else []


print("x * w               reaches", leaves(x * w))
print("x.detach() * w      reaches", leaves(x.detach() * w))

x.requires_grad_(False)
print("x needs no gradient: reaches", leaves(x * w))
x.requires_grad_(True)

with torch.no_grad():
    y = x * w
print("inside no_grad      reaches", leaves(y))


@torch.no_grad()
def with_parentheses(a, b):
    return a * b


@torch.no_grad
def bare(a, b):
    return a * b


print("@torch.no_grad()    reaches", leaves(with_parentheses(x, w)))
print("@torch.no_grad      reaches", leaves(bare(x, w)))

# The values are the same each time; only the record for the way back is missing.
print("same values:", torch.equal(x * w, bare(x, w)))
