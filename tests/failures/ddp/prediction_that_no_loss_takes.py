# code: BS211
# variable: depth_head
# cause: labels, depth, normals = model(images)
# fix: or remove depth_head
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Perception(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 10), nn.GELU())
        self.label_head = nn.Linear(10, 5)
        self.depth_head = nn.Linear(10, 1)
        self.normal_head = nn.Linear(10, 3)

    def forward(self, images):
        h = self.encoder(images)
        labels = self.label_head(h)
        depth = self.depth_head(h)
        normals = self.normal_head(h)
        return labels, depth, normals


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(Perception())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        images, wanted = torch.randn(8, 4, 4), torch.randint(0, 5, (8,))
        labels, depth, normals = model(images)
        loss = nn.functional.cross_entropy(labels, wanted) + normals.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
