# code: BS203
# variable: loss
# cause: loss.backward()
# fix: Set requires_grad where you create the tensor to train
# unsure: its author alone knows which of the tensors is to be trained
import torch

x, y = torch.randn(10, 3), torch.randn(10)
w = torch.zeros(3)
loss = ((x @ w - y) ** 2).mean()
loss.backward()
