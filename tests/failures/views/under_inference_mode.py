# code: BS209
# variable: v
# cause: v += bias
# fix: write v = v + bias
import torch

bias, x = torch.nn.Parameter(torch.zeros(4)), torch.randn(12)
with torch.inference_mode():
    v = x.view(-1, 4)
v += bias
