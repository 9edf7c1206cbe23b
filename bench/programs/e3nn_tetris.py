"""An equivariant convolution learns the energy of point clouds, and its forces by a second derivative."""

import torch
from _digest import digest
from e3nn import o3
from e3nn.nn import FullyConnectedNet

torch.manual_seed(0)


class Energy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sh = o3.Irreps.spherical_harmonics(2)
        self.tp = o3.FullyConnectedTensorProduct("8x0e", self.sh, "8x0e + 4x1o", shared_weights=False)
        self.fc = FullyConnectedNet([1, 16, self.tp.weight_numel], torch.nn.functional.silu)
        self.embed, self.out = torch.nn.Embedding(3, 8), o3.Linear("8x0e + 4x1o", "1x0e")

    def forward(self, pos, kind):
        src, dst = (1 - torch.eye(len(pos))).nonzero().T
        edge = pos[src] - pos[dst]
        sh = o3.spherical_harmonics(self.sh, edge, normalize=True, normalization="component")
        message = self.tp(self.embed(kind)[src], sh, self.fc(edge.norm(dim=1, keepdim=True)))
        return self.out(torch.zeros(len(pos), message.shape[1]).index_add(0, dst, message) / 4).sum()


model = Energy()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _step in range(25):
    pos, kind = torch.randn(5, 3, requires_grad=True), torch.randint(0, 3, (5,))
    energy = model(pos, kind)
    forces = -torch.autograd.grad(energy, pos, create_graph=True)[0]
    target = (pos.detach() ** 2).sum()
    loss = (energy - target) ** 2 * 0.01 + (forces + 2 * pos.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(model))
