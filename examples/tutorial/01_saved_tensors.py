"""w = log(x1 * x2) * sin(x2): what the forward pass keeps, and what the backward pass makes of it."""

import torch

import backsight as bs

x1 = torch.tensor(0.5, requires_grad=True)
x2 = torch.tensor(0.75, requires_grad=True)
w = torch.log(x1 * x2) * torch.sin(x2)

graph = bs.graph(w)
print(graph, end="\n\n")

# Each operation keeps what its derivative needs: a product both of its factors, a logarithm its argument.
for node in graph.nodes:
    for saved in node.saved:
        print(f"{node.op:<4} keeps {saved.name:<6} = {saved.tensor().item():.4f}")

# The pass itself: x2 is reached by two paths, and what they bring is summed.
walk = bs.walk(w).run()
print(f"\n{walk}\n")

by_hand = torch.sin(x2) / x2 + torch.log(x1 * x2) * torch.cos(x2)
print(f"dw/dx1 {walk.grad(x1):.4f}, by hand {(torch.sin(x2) / x1).item():.4f}")
print(f"dw/dx2 {walk.grad(x2):.4f}, by hand {by_hand.item():.4f}")
