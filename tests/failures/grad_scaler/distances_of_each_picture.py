# code: BS224
# variable: net
# cause: apart = torch.tensor(apart, dtype=masks.dtype, requires_grad=True)
# fix: torch.stack(apart)
import torch
import torch.nn as nn


def distance(masks, wanted, eps=1e-6):
    masks = masks.sigmoid()
    apart = []
    for mask, want in zip(masks, wanted):
        middle = 0.5 * (mask + want)
        apart.append((mask * torch.log((mask + eps) / (middle + eps))).mean())
    apart = torch.tensor(apart, dtype=masks.dtype, requires_grad=True)
    return apart.mean()


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    pictures, wanted = torch.rand(2, 3, 8, 8), (torch.rand(2, 1, 8, 8) > 0.5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        masks = net(pictures)
    loss = distance(masks.float(), wanted)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
