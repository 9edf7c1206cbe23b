# code: BS203
# variable: model
# cause: predicted = torch.tensor(model(batch["x"]), dtype=torch.float32)
# fix: predicted = model(batch["x"])
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = {"x": torch.randn(4, 3), "y": torch.randn(4, 1)}
predicted = torch.tensor(model(batch["x"]), dtype=torch.float32)
loss = nn.functional.mse_loss(predicted, batch["y"])
loss.backward()
