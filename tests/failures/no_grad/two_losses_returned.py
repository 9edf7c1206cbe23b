# code: BS203
# variable: loss
# cause: model, frozen = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1).requires_grad_(False)
# fix: frozen.requires_grad_(True)
import torch

model, frozen = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1).requires_grad_(False)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def losses(x):
    score = model(x)
    other = frozen(x).mean()
    return other, score.mean()


loss, second = losses(torch.ones(4, 2))
second.backward()
loss.backward()
