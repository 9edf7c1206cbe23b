# code: BS226
# variable: torch.any(torch.isinf(x))
# cause: if torch.any(torch.isinf(x)):
# fix: take lines 16 to 18 out of it
import torch
from torch.func import functional_call, grad, vmap

model = torch.nn.Linear(3, 1)
settings = {"strict": True}


def of_one(weights, x, y):
    """The error of one sample."""
    # what came in with the sensors of last year
    strict = settings["strict"]
    if torch.any(torch.isinf(x)):
        message = "infinite input"
        raise ValueError(message)
    error = functional_call(model, weights, (x,)) - y
    return error.square().sum() if strict else error.abs().sum()


def step(inputs, targets):
    weights = {name: each.detach() for name, each in model.named_parameters()}
    return vmap(grad(of_one), in_dims=(None, 0, 0))(weights, inputs, targets)


print({name: each.shape for name, each in step(torch.randn(4, 3), torch.randn(4, 1)).items()})
