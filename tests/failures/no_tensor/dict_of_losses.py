# code: BS222
# variable: out
# cause: out = {"loss": model(x).sum(), "extra": model(x).sum()}
# fix: Call out['loss'].backward()
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
out = {"loss": model(x).sum(), "extra": model(x).sum()}
out.backward()
