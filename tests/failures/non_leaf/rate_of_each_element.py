# code: BS206
# variable: x
# cause: group["params"] = [vector[k]]
# fix: `x = [each.detach().requires_grad_() for each in x]`
import torch

settings = [{"lr": 0.1}, {"lr": 0.01, "momentum": 0.5}, {"lr": 0.001, "momentum": 0.9}]
steepness = torch.tensor([1.0, 10.0, 100.0])
x = torch.ones(3, requires_grad=True)


def groups_of(vector, settings):
    groups = []
    for k, own in enumerate(settings):
        group = dict(own)
        group["params"] = [vector[k]]
        groups.append(group)
    return groups


def height(vector):
    return (steepness * vector**2).sum()


def descend(steps=5):
    optimizer = torch.optim.SGD(groups_of(x, settings), lr=0.1)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = height(x)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


print(descend())
