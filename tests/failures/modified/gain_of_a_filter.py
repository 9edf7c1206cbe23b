# code: BS202
# variable: cov
# cause: cov -= gain @ cov
# fix: Write cov = cov - (gain @ cov)
# or: cov.sub_(gain @ cov)
import torch

gain = torch.ones(2, 2, requires_grad=True)
if True:
    cov = gain * 2
    cov -= gain @ cov
cov.sum().backward()
