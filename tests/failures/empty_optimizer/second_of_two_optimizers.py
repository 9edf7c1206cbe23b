# code: BS223
# variable: params
# cause: params = (p for p in model.parameters())
# fix: params = list((p for p in model.parameters()))
import torch

model = torch.nn.Linear(3, 1)
params = (p for p in model.parameters())
print(params)
first = torch.optim.SGD(params, lr=0.1)
second = torch.optim.SGD(params, lr=0.1)
