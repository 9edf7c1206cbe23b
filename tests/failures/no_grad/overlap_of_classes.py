# code: BS203
# variable: loss
# cause: labels = scores.argmax(1)
# fix: labels.movedim(1, -1)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Conv2d(1, 4, 5, padding=2)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)


def soft_iou(scores, target, classes):
    labels = scores.argmax(1)
    mask = F.one_hot(labels, classes).float()
    truth = F.one_hot(target, classes).float()
    both = (mask * truth).sum((1, 2))
    either = (mask + truth - mask * truth).sum((1, 2))
    return 1 - ((both + 1) / (either + 1)).mean()


for k in range(30):
    target = torch.randint(0, 4, (8, 12, 12))
    image = target.float().unsqueeze(1) + 0.1 * torch.randn(8, 1, 12, 12)
    loss = soft_iou(net(image), target, 4)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
