# code: BS203
# variable: loss
# cause: g_source = flat(torch.autograd.grad(ours, self.weights, retain_graph=True))
# fix: g_target = flat(torch.autograd.grad(theirs, self.weights, retain_graph=True, create_graph=True))
import torch
import torch.nn as nn
import torch.nn.functional as F


def flat(gradients):
    return torch.cat([g.reshape(-1) for g in gradients])


class Alignment:
    def __init__(self, model):
        self.model = model
        self.weights = list(model.parameters())

    def __call__(self, source, target):
        ours = F.mse_loss(self.model(source[0]), source[1])
        theirs = F.mse_loss(self.model(target[0]), target[1])
        g_source = flat(torch.autograd.grad(ours, self.weights, retain_graph=True))
        g_target = flat(torch.autograd.grad(theirs, self.weights, retain_graph=True))
        return 1 - F.cosine_similarity(g_source, g_target, dim=0)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
align = Alignment(model)
for step in range(4):
    source = torch.randn(32, 4), torch.randn(32, 1)
    target = torch.randn(32, 4) + 1, torch.randn(32, 1)
    loss = align(source, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
