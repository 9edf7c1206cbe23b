# code: BS202
# variable: head.weight
# cause: torch.nn.init.zeros_(head.weight)
# fix: torch.nn.init.zeros_(head.weight)
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)

loss = head(model(x)).sum()
nn.utils.vector_to_parameters(torch.zeros(20), model.parameters())
torch.nn.init.zeros_(head.weight)
loss.backward()
