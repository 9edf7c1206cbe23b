# code: BS201
# variable: path
# cause: box_loss = important(boxes, path, torch.randn(8, 4))
# fix: on line 35, write `box_loss = important(boxes, path.detach(), torch.randn(8, 4))` and on line 36, write `path_loss = (path - torch.randn(8, 2)).pow(2).mean() - 0.1 * clear(path, boxes.detach())`
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, out))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def forward(self, picture):
        return self.body(picture)


def important(boxes, path, truth):
    return (torch.sigmoid(path.norm(dim=1, keepdim=True)) * (boxes - truth) ** 2).mean()


def clear(path, boxes):
    return (path - boxes[:, :2]).abs().mean()


tracker, planner = Net(4), Net(2)
for step in range(3):
    picture = torch.randn(8, 5)
    boxes, path = tracker(picture), planner(picture)
    tracker.optimizer.zero_grad()
    planner.optimizer.zero_grad()
    box_loss = important(boxes, path, torch.randn(8, 4))
    path_loss = (path - torch.randn(8, 2)).pow(2).mean() - 0.1 * clear(path, boxes)
    box_loss.backward()
    tracker.optimizer.step()
    path_loss.backward()
    planner.optimizer.step()
    print(step, box_loss.item(), path_loss.item())
