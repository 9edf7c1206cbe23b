# code: BS212
# variable: loss
# cause: loss = criterion(model(x), y)
# fix: mean
import torch
from torch import nn

config = {"loss": {"reduction": "none", "label_smoothing": 0.1}, "lr": 0.01}
model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss(**config["loss"])
optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
for x, y in [(torch.randn(5, 4), torch.randint(0, 3, (5,)))]:
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
