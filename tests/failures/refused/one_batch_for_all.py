# code: BS200
# variable: every(weights, x)
# cause: print(every(weights, x).shape)
# fix: pass in_dims=(0, None) to vmap
import torch

weights, x = torch.randn(4, 3), torch.randn(10, 3)
every = torch.vmap(lambda w, x: x @ w)
print(every(weights, x).shape)
