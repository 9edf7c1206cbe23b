# code: BS200
# variable: self.decoder.weight
# cause: self.decoder.weight = self.encoder.weight.t()
# fix: torch.func.functional_call(self.decoder
import torch
import torch.nn as nn
import torch.nn.functional as F


class TiedAE(nn.Module):
    """Autoencoder with tied weights: decoder uses encoder.weight.t()."""

    def __init__(self, d=20, h=6):
        super().__init__()
        self.encoder = nn.Linear(d, h)
        self.decoder = nn.Linear(h, d)
        self.tie()

    def tie(self):
        self.decoder.weight = self.encoder.weight.t()

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)))


class Experiment:
    def __init__(self, model, data):
        self.model = model
        self.data = data
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(self, x):
        loss = F.mse_loss(self.model(x), x)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def run(self, epochs=5):
        for epoch in range(epochs):
            losses = [self.step(x) for x in self.data.split(32)]
            print(epoch, sum(losses) / len(losses))


def low_rank(n, d=20, r=4):
    return torch.relu(torch.randn(n, r)) @ torch.randn(r, d)


torch.manual_seed(0)
Experiment(TiedAE(), low_rank(256)).run()
