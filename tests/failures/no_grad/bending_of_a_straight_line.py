# code: BS203
# variable: slope
# cause: slope = torch.autograd.grad(height, at, create_graph=True)[0]
# fix: if slope.requires_grad else torch.zeros_like(at)
import torch


def bending(height, at):
    slope = torch.autograd.grad(height, at, create_graph=True)[0]
    bend = torch.autograd.grad(slope, at)[0]
    return bend


def arch(at):
    return 1.0 - at**2


def line(at):
    return 0.5 * at + 1.0


def table(curves, places):
    for curve in curves:
        rows = []
        for place in places:
            at = torch.tensor(place, requires_grad=True)
            height = curve(at)
            rows.append(bending(height, at).item())
        print(curve.__name__, rows)


table([arch, line], [0.0, 0.5, 1.0])
