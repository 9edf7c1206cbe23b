# code: BS213
# variable: noise.grad
# cause: noise = begun(4) * 2
# fix: Call noise.retain_grad() right after it is computed
import torch


def begun(size):
    return bounded(torch.rand(size)).requires_grad_()


def bounded(noise):
    return noise.clamp(0.1, 0.9)


def search(goal, aside=0.0):
    noise = begun(4) * 2
    for k in range(3):
        if k == 0:
            continue
        loss = (noise - goal).pow(2).sum()
        loss.backward()
        slope = aside = noise.grad.sign()
        noise = bounded(noise - 0.1 * slope).detach().requires_grad_()
    return noise


search(0.5)
