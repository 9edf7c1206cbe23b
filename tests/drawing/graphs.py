"""Graphs to draw: small, and each with something that a picture must show."""

import random

import torch
from torch import nn
from torch.nn import functional as F

import backsight


class Attention(nn.Module):
    """A layer that splits its input, so that there is something inside to be closed."""

    def __init__(self, width):
        super().__init__()
        self.mix, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x):
        a, b = self.mix(x).chunk(2, -1)
        return self.out(torch.softmax(a, -1) * b)


class Block(nn.Module):
    """A residual block: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """An embedding, equal blocks, a head."""

    def __init__(self, blocks=4, width=8):
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.h = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.head = nn.Linear(width, 11)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.h:
            x = block(x)
        return self.head(x)


class Twice(nn.Module):
    """One encoder used for two inputs."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, a, b):
        return (self.encoder(a) - self.encoder(b)).pow(2).sum()


def transformer(blocks=4, optimizer=None, trained=lambda name: True):
    """Return the graph of a transformer's loss, its modules known from its calls."""
    torch.manual_seed(0)
    model, ids = Transformer(blocks), torch.arange(10).reshape(2, 5)
    if optimizer:
        optimizer = optimizer([p for name, p in model.named_parameters() if trained(name)], lr=0.1)
    with backsight.watch():
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        return backsight.graph(loss, model=model, optimizer=optimizer)


def sampler(steps=50):
    """Return the graph of a net without a name that is applied again and again, with operations in between."""
    net, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), torch.randn(2, 4, requires_grad=True)
    with backsight.watch():
        for _ in range(steps):
            noise = net(x)
            x = (x - 0.1 * noise) * 1.01
        return backsight.graph(x.sum(), model={"net": net, "other": nn.Linear(1, 1)})


def chain(length):
    """Return the graph of many operations, one after the other, that are all the same two."""
    x = torch.ones(3, requires_grad=True)
    y = x
    for k in range(length):
        y = y.sin() if k % 2 else y * 1.5
    return backsight.graph(y)


def tangle(length):
    """Return a graph in which nothing repeats itself."""
    any_of = random.Random(0)
    values = [torch.ones(3, requires_grad=True).sin()]
    for _ in range(length):
        operation = any_of.choice((torch.sin, torch.cos, torch.tanh, torch.exp, torch.abs))
        values.append(operation(values[-1]) + any_of.choice(values))
    return backsight.graph(values[-1].sum())


def shown(scene):
    """Return name and operation of what a scene shows, a line each, indented by depth: the picture as text."""
    depth, lines = {}, []
    for box in scene.boxes:
        depth[box.index] = 0 if box.parent is None else depth[box.parent] + 1
        if scene.stands_for[box.index] == box.index:
            mark = ("▾ " if box.opened else "▸ ") if box.is_group else ""
            name = f"{mark}{box.name} {box.op}".strip()
            lines.append("  " * depth[box.index] + name + (f" ×{box.times}" if box.times > 1 else ""))
    return "\n".join(lines)
