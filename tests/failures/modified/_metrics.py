import torch


def brier(probabilities, labels):
    return ((probabilities - labels) ** 2).mean()


@torch.no_grad()
def log_loss(probabilities, labels):
    probabilities.clamp_(1e-6, 1 - 1e-6)
    return -(labels * probabilities.log() + (1 - labels) * (1 - probabilities).log()).mean().item()
