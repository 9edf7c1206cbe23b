# code: BS202
# variable: chain
# cause: chain[:, i] = chain[:, (i - 1) // 2] @ local[:, i]
# fix: chain = torch.stack(parts, dim=1)
import torch
from torch import nn


class Skeleton(nn.Module):
    def forward(self, local):
        chain = local.clone()
        for i in range(1, local.shape[1]):
            chain[:, i] = chain[:, (i - 1) // 2] @ local[:, i]
        return chain[:, :, :2, 2]


torch.manual_seed(0)
rotation, skeleton = nn.Linear(4, 7 * 9), Skeleton()
optimizer = torch.optim.Adam(rotation.parameters())
for _ in range(2):
    places = skeleton(rotation(torch.randn(3, 4)).view(3, 7, 3, 3))
    loss = places.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
