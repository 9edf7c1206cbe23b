# code: BS206
# variable: self.latents
# cause: self.latents = torch.randn(count, size, requires_grad=True).to(config["dtype"])
# fix: requires_grad_()
import torch
from torch import nn


class AutoDecoder:
    def __init__(self, count, size, config):
        self.decoder = nn.Linear(size, 3).to(config["dtype"])
        self.latents = torch.randn(count, size, requires_grad=True).to(config["dtype"])
        self.optimizer = torch.optim.Adam(
            [{"params": self.decoder.parameters()}, {"params": [self.latents], "lr": config["latent_lr"]}],
            lr=config["lr"],
        )


AutoDecoder(10, 4, {"dtype": torch.float64, "lr": 1e-4, "latent_lr": 1e-3})
