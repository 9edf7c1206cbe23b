# code: BS206
# variable: corners['low']
# cause: corners = parts(box)
# fix: Pass the leaf itself, box
import torch


def parts(box):
    corners = {}
    for position, name in enumerate(("low", "high")):
        corners[name] = box[position]
    return corners


torch.manual_seed(0)
box = torch.rand(2, 3, requires_grad=True)
corners = parts(box)
optimizer = torch.optim.SGD(list(corners.values()), lr=0.1)
for _ in range(2):
    loss = (corners["high"] - corners["low"] - 1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
