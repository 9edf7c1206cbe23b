# code: BS211
# variable: coarse
# cause: total = total + 0.3 * criterion(out["coarse"], y)
# fix: find_unused_parameters=True
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Segmenter(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.down, self.up = nn.Conv1d(2, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1)
        self.fine, self.coarse = nn.Conv1d(8, classes, 1), nn.Conv1d(8, classes, 1)

    def forward(self, x):
        h = torch.relu(self.down(x))
        return {"fine": self.fine(torch.relu(self.up(h))), "coarse": self.coarse(h)}


def objective(out, y, step, warm_up=2):
    criterion = nn.CrossEntropyLoss()
    total = criterion(out["fine"], y)
    if step < warm_up:
        total = total + 0.3 * criterion(out["coarse"], y)
    return total


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    net = DistributedDataParallel(Segmenter())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(5):
        x, y = torch.randn(4, 2, 10), torch.randint(0, 3, (4, 10))
        out = net(x)
        loss = objective(out, y, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
