# code: BS226
# variable: result
# cause: nodes[active] *= gain
# fix: nodes = torch.where(active[..., None], nodes * gain, nodes)
import torch


def excited(start, gain):
    nodes = start.tanh()
    active = nodes.norm(dim=1) > 1
    nodes[active] *= gain
    return nodes.square().mean()


graphs, gain = torch.randn(4, 7, 3), torch.tensor([0.5, 1.0, 2.0])
energies = torch.vmap(excited, in_dims=(0, None))(graphs, gain)
