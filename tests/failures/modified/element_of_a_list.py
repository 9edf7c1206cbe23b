# code: BS202
# variable: outs[0]
# cause: outs[0] += 1
# fix: outs[0] = outs[0] + 1
import torch

x = torch.randn(3, requires_grad=True)
outs = [x.sigmoid(), x.tanh()]
outs[0] += 1
(outs[0] * outs[1]).sum().backward()
