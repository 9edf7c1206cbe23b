# code: BS213
# variable: ws[1].grad
# cause: torch.stack([w.grad for w in ws])
# fix: if w.grad is not None
import torch

ws = [torch.ones(3, requires_grad=True) for _ in range(2)]
(ws[0] * 2).sum().backward()
torch.stack([w.grad for w in ws])
