# code: BS213
# variable: w.grad
# cause: g = w.grad
# fix: Read it after backward()
import torch

w = torch.ones(3, requires_grad=True)
g = w.grad
0.1 * g
