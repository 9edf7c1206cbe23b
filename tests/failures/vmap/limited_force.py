# code: BS226
# variable: size > 2.0 and size.isfinite()
# cause: if size > 2.0 and size.isfinite():
# fix: `force = torch.where((size > 2.0) & (size.isfinite()), force * (2.0 / size), force)`
import torch


def limited(place, charge):
    force = charge * place / place.square().sum()
    size = torch.linalg.vector_norm(force)
    if size > 2.0 and size.isfinite():
        force = force * (2.0 / size)
    return force


charge = torch.tensor(3.0, requires_grad=True)
places = torch.randn(6, 2)
forces = torch.vmap(limited, in_dims=(0, None))(places, charge)
forces.square().mean().backward()
print(charge.grad)
