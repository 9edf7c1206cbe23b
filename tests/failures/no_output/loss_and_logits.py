# code: BS233
# variable: compute_loss
# cause: return loss, logits
# fix: grad(compute_loss, has_aux=True)
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Linear(5, 3)
params = dict(model.named_parameters())


def compute_loss(params, sample, target):
    logits = functional_call(model, params, (sample.unsqueeze(0),))
    loss = nn.functional.cross_entropy(logits, target.unsqueeze(0))
    return loss, logits


samples, targets = torch.randn(8, 5), torch.randint(3, (8,))
per_sample = vmap(grad(compute_loss), in_dims=(None, 0, 0))(params, samples, targets)
print({name: g.norm(dim=tuple(range(1, g.dim()))) for name, g in per_sample.items()})
