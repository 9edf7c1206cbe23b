# code: BS211
# variable: aux
# cause: parts["aux"] = aux_weight * F.cross_entropy(out["aux"], labels)
# fix: find_unused_parameters=True
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.cls = nn.Linear(128, 3)
        self.box = nn.Linear(128, 4)
        self.aux = nn.Linear(128, 3)

    def forward(self, x):
        h = self.backbone(x)
        return {"cls": self.cls(h), "box": self.box(h), "aux": self.aux(h)}


def criterion(out, labels, boxes, aux_weight=0.0):
    parts = {
        "cls": F.cross_entropy(out["cls"], labels),
        "box": F.smooth_l1_loss(out["box"], boxes),
    }
    if aux_weight > 0:
        parts["aux"] = aux_weight * F.cross_entropy(out["aux"], labels)
    return sum(parts.values()), parts


def loop(model, opt, steps):
    for step in range(steps):
        images = torch.randn(8, 1, 16, 16)
        labels = torch.randint(0, 3, (8,))
        boxes = torch.rand(8, 4)
        loss, parts = criterion(model(images), labels, boxes)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, {k: round(v.item(), 3) for k, v in parts.items()})


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    model = DDP(Detector())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        loop(model, opt, 5)
    finally:
        dist.destroy_process_group()


main()
