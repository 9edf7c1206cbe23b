"""Real NVP fits a density that it is given, by the reverse KL divergence."""

import normflows as nf
import torch
from _digest import digest

torch.manual_seed(0)
flows = []
for _ in range(4):
    flows.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 32, 32, 2], init_zeros=True)))
    flows.append(nf.flows.Permute(2, mode="swap"))
model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), flows, nf.distributions.TwoMoons())
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=1e-5)
for _step in range(60):
    optimizer.zero_grad()
    loss = model.reverse_kld(128)
    if ~(torch.isnan(loss) | torch.isinf(loss)):
        loss.backward()
        optimizer.step()
print(loss.item())
print(digest(model))
