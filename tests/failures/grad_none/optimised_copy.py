# code: BS213
# variable: latent
# cause: latent = start.clone().requires_grad_(True).double()
# fix: requires_grad_()
import torch

start = torch.zeros(5)
latent = start.clone().requires_grad_(True).double()
target = torch.arange(5.0).double()
for step in range(2):
    loss = (latent - target).square().sum()
    loss.backward()
    with torch.no_grad():
        latent.sub_(0.1 * latent.grad)
