# code: BS209
# variable: net.2
# cause: score = net(image).amax()
# fix: without inplace=True
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.LeakyReLU(inplace=True), nn.Linear(8, 3))
seen = []
net[1].register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].norm()))
image = torch.rand(2, 3, 4)
score = net(image).amax()
score.backward()
