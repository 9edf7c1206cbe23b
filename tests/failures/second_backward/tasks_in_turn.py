# code: BS201
# variable: features
# cause: features = encoder(x)
# fix: write `total = total + (loss / len(heads))` on line
import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(5, 12), nn.ReLU())
heads = nn.ModuleList(nn.Linear(12, n) for n in (2, 3, 4))
optimizer = torch.optim.Adam([*encoder.parameters(), *heads.parameters()])

for _ in range(3):
    x = torch.randn(8, 5)
    features = encoder(x)
    optimizer.zero_grad()
    for head in heads:
        y = torch.randint(0, head.out_features, (8,))
        loss = nn.functional.cross_entropy(head(features), y)
        (loss / len(heads)).backward()
    optimizer.step()
