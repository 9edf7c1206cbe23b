# code: BS203
# variable: w
# cause: w = w.detach()
# fix: Keep w a leaf: remove line 9
# unsure: a leaf that is gone is known from the text alone
import torch

w = torch.ones(3, requires_grad=True)
w = w.detach()
(w * 2).sum().backward()
