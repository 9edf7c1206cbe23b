"""Modules of a few operations, and a log of their calls."""

import contextlib

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backsight.tape import CallLog, announce


@contextlib.contextmanager
def logged():
    """Log every module call in this block, and let captures use the log for as long as it is held."""
    log = CallLog()
    announce(log)

    def enter(module, args):
        log.enter(module)

    def leave(module, args, output):
        log.leave(module)

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield log
    finally:
        for hook in hooks:
            hook.remove()
        log.close()


def made_by(graph):
    """The operations in forward order, each with its module and the number of the call."""
    return [(n.op, n.module, n.call) for n in reversed(graph.nodes) if n.kind != "leaf"]


class Sine(torch.nn.Module):
    def forward(self, x):
        return x.sin()


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((2,), 2.0))

    def forward(self, x):
        return x * self.by


class Nest(torch.nn.Module):
    """Operations of its own before, between and after the calls of its children; one of them is called twice."""

    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.sine = Sine()

    def forward(self, x):
        x = self.scale(x.exp())
        x = self.sine(x.cos())
        return self.scale(x).tanh()


NEST = [("Exp", "", 0), ("Mul", "scale", 0), ("Cos", "", 0), ("Sin", "sine", 0), ("Mul", "scale", 1), ("Tanh", "", 0)]


def x():
    return torch.ones(2, requires_grad=True)
