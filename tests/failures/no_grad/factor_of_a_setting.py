# code: BS203
# variable: loss
# cause: loss.backward()
# fix: Set requires_grad where you create the tensor to train
# unsure: its author alone knows which of the tensors is to be trained
# varied: factor = float({'factor': '2.5'}['factor'])
# or: settings = {'factor': '2.5'}; factor = float(settings['factor'])
# or: import numpy; data = numpy.ones(3, dtype='float32'); factor = torch.tensor(data)
# or: data = [1.0, 2.0, 3.0]; factor = torch.tensor(data)
import torch
factor = float({'factor': '2.5'}['factor'])
w = torch.zeros(3)
loss = (w * factor).sum()
loss.backward()
