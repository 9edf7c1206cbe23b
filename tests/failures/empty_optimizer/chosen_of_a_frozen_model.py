# code: BS223
# variable: model
# cause: model.requires_grad_(False)
# fix: with requires_grad_(True)
# varied: params = [p for p in model.parameters() if p.requires_grad]
# or: params = []\nfor p in model.parameters():\n    if p.requires_grad:\n        params.append(p)
# or: params = filter(lambda p: p.requires_grad, model.parameters())\nprint(sum(1 for p in params))
import torch

model = torch.nn.Linear(2, 2)
model.requires_grad_(False)
params = [p for p in model.parameters() if p.requires_grad]
torch.optim.SGD(params, lr=1)
