# code: BS203
# variable: margin
# cause: wrong = margin < 0
# fix: margin
import torch
from torch import nn

svm = nn.Linear(2, 1)
x = torch.randn(10, 2)
y = torch.where(x.sum(1) > 0, 1.0, -1.0)
margin = y * svm(x).squeeze(1)
wrong = margin < 0
error_rate = torch.where(wrong, torch.ones(10), torch.zeros(10)).mean()
error_rate.backward()
