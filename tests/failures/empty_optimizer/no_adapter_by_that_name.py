# code: BS223
# variable: adapters
# cause: optimizer = torch.optim.AdamW(adapters, lr=1e-4)
# fix: "lora_"
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
model.add_module("adapter", nn.Linear(4, 4))
adapters = [p for n, p in model.named_parameters() if "lora_" in n]
optimizer = torch.optim.AdamW(adapters, lr=1e-4)
