"""A training step, and what a watch of it can tell."""

import torch

import backsight as bs

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def normalized(h):
    scale = h.norm(dim=-1, keepdim=True)
    h = h / scale
    h[:, 0] = 0
    return h


with bs.watch(level="exact") as watch:
    target = model(torch.randn(2, 4)).detach()
    loss = (normalized(model(torch.randn(2, 4))) - target).square().mean()
    graph = bs.graph(loss)
    loss.backward()
    optimizer.step()

    for node in graph.nodes[2:5]:
        print(f"{node.op:<10} {watch.line_of(node)}  {watch.line_of(node).text}")
    divided = next(node for node in graph.nodes if node.op == "Div")
    operation = watch.operation_of(divided)
    print(operation.line.segment, [operand.text for operand in operation.operands])
    for change in watch.changes(model.weight):
        print(change.op, change.line, "version", change.before, "to", change.after)
    for cut in watch.severed(target):
        print(cut.by, cut.line, cut.operand)
    for backward in watch.backwards:
        print(backward.call, backward.line, "freed its graph" if backward.freed else "left its graph")
