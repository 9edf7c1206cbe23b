# code: BS223
# variable: params
# cause: optimizer = torch.optim.SGD(params, lr=0.1)
# fix: Create the optimizer after
import torch

params = []
optimizer = torch.optim.SGD(params, lr=0.1)
params.append(torch.ones(3, requires_grad=True))
