# code: BS202
# variable: weights
# cause: weights[label] += 1.0
# fix: weights
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(12, 3), torch.randint(0, 2, (12,)))
model = nn.Linear(3, 2)
weights = torch.ones(2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for x, labels in DataLoader(data, batch_size=4):
    logits = model(x) * weights
    loss = nn.functional.cross_entropy(logits, labels)
    for label in labels:
        weights[label] += 1.0
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
