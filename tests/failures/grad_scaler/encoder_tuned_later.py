# code: BS224
# variable: model.encoder
# cause: with torch.set_grad_enabled(epoch >= self.tune_after):
# fix: scaler.step(enc_opt)`
import torch
import torch.nn as nn
import torch.nn.functional as F


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.decoder = nn.Linear(16, 5)
        self.tune_after = 2

    def forward(self, x, epoch):
        with torch.set_grad_enabled(epoch >= self.tune_after):
            features = self.encoder(x)
        return self.decoder(features)


torch.manual_seed(0)
model = Captioner()
enc_opt = torch.optim.Adam(model.encoder.parameters(), lr=1e-4)
dec_opt = torch.optim.Adam(model.decoder.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for epoch in range(4):
    x, y = torch.randn(16, 8), torch.randint(0, 5, (16,))
    loss = F.cross_entropy(model(x, epoch), y)
    enc_opt.zero_grad()
    dec_opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(dec_opt)
    scaler.step(enc_opt)
    scaler.update()
    print(epoch, loss.item())
