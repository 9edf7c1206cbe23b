# code: BS224
# variable: model.encoder
# cause: return self.head(code.detach()) + self.skip(code.detach())
# fix: self.head(code) + self.skip(code)
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.skip = nn.Linear(8, 3)

    def forward(self, code):
        return self.head(code.detach()) + self.skip(code.detach())


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
        self.decoder = Decoder()


model = Autoencoder()
enc_opt = torch.optim.SGD(model.encoder.parameters(), lr=0.1)
dec_opt = torch.optim.SGD(model.decoder.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(4):
    x = torch.randn(16, 3)
    out = model.decoder(model.encoder(x))
    loss = (out - x).pow(2).mean()
    enc_opt.zero_grad()
    dec_opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(dec_opt)
    scaler.step(enc_opt)
    scaler.update()
