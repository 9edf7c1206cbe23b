# code: BS209
# variable: unbind
# cause: list(map(torch.Tensor.exp_, x.unbind(1)))
# fix: created with .clone() just before
# unsure: the statement has no name for the view
import torch

x = torch.randn(4, 4, requires_grad=True) * 2
list(map(torch.Tensor.exp_, x.unbind(1)))
