# code: BS203
# variable: scores
# cause: guess = scores.argmax(dim=1).float()
# fix: scores
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

classifier = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(classifier.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(12, 4), torch.randint(0, 3, (12,))), batch_size=6)

for inputs, labels in loader:
    scores = classifier(inputs)
    guess = scores.argmax(dim=1).float()
    loss = (guess - labels.float()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
