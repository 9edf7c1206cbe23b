import torch


def batches(projection, steps):
    """Yield noisy versions of the same codes."""
    noise = torch.randn(8, 4)
    codes = torch.tanh(projection(noise))
    for _ in range(steps):
        yield codes + 0.1 * torch.randn(8, 6), torch.randn(8, 1)
