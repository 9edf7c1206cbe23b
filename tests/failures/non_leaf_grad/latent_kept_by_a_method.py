# code: BS213
# variable: self.latent
# cause: latent = self.encoder(image)
# fix: latent.retain_grad()
import torch
from torch import nn


class Search:
    def __init__(self, encoder, decoder):
        self.encoder, self.decoder = encoder, decoder
        self.latent = None

    def start(self, image):
        latent = self.encoder(image)
        self.latent = latent

    def step(self, image):
        (self.decoder(self.latent) - image).square().mean().backward()
        with torch.no_grad():
            self.latent -= 0.1 * self.latent.grad


search = Search(nn.Linear(8, 3), nn.Linear(3, 8))
image = torch.rand(2, 8)
for _ in range(3):
    search.start(image)
    search.step(image)
