# code: BS203
# variable: loss
# cause: loss.backward()
# fix: Set requires_grad where you create the tensor to train
# unsure: its author alone knows which of the tensors is to be trained
import torch
rows, labels = [[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0]
x = torch.tensor(rows); y = torch.tensor(labels)
w = torch.zeros(2)
loss = (x @ w - y).pow(2).mean()
loss.backward()
