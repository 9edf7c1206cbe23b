# code: BS213
# variable: net.decoder.weight
# cause: return z, self.decoder(z)
# fix: if w.grad is not None
import torch
from torch import nn

torch.manual_seed(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 3)
        self.decoder = nn.Linear(3, 6)
        self.classifier = nn.Linear(3, 2)

    def forward(self, x, pretraining=False):
        z = torch.tanh(self.encoder(x))
        if pretraining:
            return z, self.decoder(z)
        return self.classifier(z)


net = Autoencoder()
for step in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
    loss = nn.functional.cross_entropy(net(x), y)
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for w in net.parameters():
            w -= 0.1 * w.grad.clamp(-1, 1)
    print(step, loss.item())
