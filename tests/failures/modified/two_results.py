# code: BS202
# variable: z
# cause: z.mul_(2)
# fix: Write z = z.mul(2)
import torch

x = torch.randn(3, requires_grad=True)
other = torch.ones(3)
y = x.sigmoid() * other.sum()
other += 1
z = (x * 2).tanh()
z.mul_(2)
(y.sum() + z.sum()).backward()
