"""Fabric: a recurrent network, truncated backpropagation through time."""

import torch
from _digest import digest
from lightning.fabric import Fabric, seed_everything
from torch import nn

seed_everything(0, verbose=False)
fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
fabric.launch()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 8)

    def forward(self, x, state=None):
        out, state = self.rnn(x, state)
        return self.head(out), state


model = Model()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
model, optimizer = fabric.setup(model, optimizer)
stream, state = torch.randn(4, 400, 8).cumsum(dim=1) * 0.1, None
for start in range(0, 390, 10):
    optimizer.zero_grad()
    out, state = model(stream[:, start : start + 10], state)
    state = tuple(part.detach() for part in state)
    loss = nn.functional.mse_loss(out, stream[:, start + 1 : start + 11])
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
print(loss.item())
print(digest(model.state_dict()))
