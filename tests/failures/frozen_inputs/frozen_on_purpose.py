# code: BS227
# variable: backbone
# cause: features = checkpoint(backbone, image, use_reentrant=True)
# fix: without the checkpoint
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

backbone = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).requires_grad_(False)
head = nn.Linear(8, 2)
image = torch.randn(4, 8)
features = checkpoint(backbone, image, use_reentrant=True)
head(features).sum().backward()
