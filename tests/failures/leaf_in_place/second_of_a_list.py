# code: BS205
# variable: params[1]
# cause: params[k] -= params[k].grad
# fix: with torch.no_grad(): params[k] -= params[k].grad
import torch

params = [torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)]
(params[0] * params[1]).sum().backward()
k = 1
params[k] -= params[k].grad
