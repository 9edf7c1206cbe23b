# code: BS202
# variable: encoded | encoded[0]
# cause: encoded[0][:, :, t] = self.blend(encoded[0][:, :, t])
# fix: encoded = (encoded[0].clone(), *encoded[1:])
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        return torch.tanh(self.down(hidden)), hidden


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.mix = nn.GRUCell(6, 6), nn.Linear(1, 1)

    def blend(self, column):
        return column + 0.1 * self.mix(column.mean(1, keepdim=True))

    def forward(self, encoded):
        h = encoded[1].mean(1)
        for t in range(3):
            weights = torch.softmax(torch.einsum("bsh,bh->bs", encoded[0], h), dim=-1)
            h = self.cell(torch.einsum("bs,bsh->bh", weights, encoded[1]), h)
            encoded[0][:, :, t] = self.blend(encoded[0][:, :, t])
        return h


torch.manual_seed(0)
encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for _ in range(2):
    loss = decoder(encoder(torch.randn(2, 5, 4))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
