# code: BS206
# variable: temperature
# cause: temperature = log_temperature.exp()
# fix: log_temperature
import torch
from torch import nn

model = nn.Linear(4, 4)
log_temperature = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
temperature = log_temperature.exp()
optimizer.add_param_group({"params": temperature, "lr": 0.01})
