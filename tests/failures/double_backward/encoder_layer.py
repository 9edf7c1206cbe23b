# code: BS215
# variable: scaled_dot_product_attention
# cause: y = layer(x)
# fix: with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
x = torch.randn(1, 5, 8, requires_grad=True)
y = layer(x)
(g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
g.square().sum().backward()
