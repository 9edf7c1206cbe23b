# code: BS214
# variable: features
# cause: @torch.inference_mode()
# fix: features = features.clone()
import torch
from torch import nn

model, head = nn.Linear(4, 3), nn.Linear(3, 2)
x = torch.randn(5, 4)


@torch.inference_mode()
def encode(x):
    return model(x)


features = encode(x)
head(features).sum()
