# code: BS211
# variable: neck.scales.2
# cause: fine, middle, coarse = self.neck(self.stem(image))
# fix: Use coarse of self.neck
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Neck(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ModuleList(nn.Conv2d(6, 6, 3, stride=2, padding=1) for _ in range(3))

    def forward(self, x):
        found = []
        for scale in self.scales:
            x = torch.relu(scale(x))
            found.append(x.mean((2, 3)))
        return found


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.neck = Neck()
        self.head = nn.Linear(12, 1)

    def forward(self, image):
        fine, middle, coarse = self.neck(self.stem(image))
        return self.head(torch.cat([fine, middle], dim=1))


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = DistributedDataParallel(Counter())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            loss = nn.functional.mse_loss(model(torch.randn(4, 3, 16, 16)), torch.rand(4, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    finally:
        dist.destroy_process_group()


main()
