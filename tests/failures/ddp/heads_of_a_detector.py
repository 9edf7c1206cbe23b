# code: BS211
# variable: mask_head
# cause: masks = self.mask_head(features)
# fix: or remove self.mask_head
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.box_head = nn.Linear(12, 4)
        self.mask_head = nn.Sequential(
            nn.Linear(12, 8),
            nn.Linear(8, 2),
        )

    def forward(self, points, boxes):
        features = self.backbone(points)
        masks = self.mask_head(features)
        return {"box": nn.functional.smooth_l1_loss(self.box_head(features), boxes)}


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(Detector())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        loss = sum(model(torch.randn(8, 6), torch.randn(8, 4)).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
