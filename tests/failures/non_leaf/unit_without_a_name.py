# code: BS206
# variable: A float32 tensor of shape 3
# cause: torch.optim.SGD([{"params": [w / w.norm()]}], lr=0.1)
# fix: Pass the leaf itself, w
import torch

w = torch.ones(3, requires_grad=True)
torch.optim.SGD([{"params": [w / w.norm()]}], lr=0.1)
