"""A classifier is trained, and its decisions are attributed: gradients of inputs, of layers, of perturbations."""

import torch
from _digest import digest
from captum.attr import DeepLift, IntegratedGradients, LayerConductance, Saliency
from captum.robust import PGD
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(128, 8)
y = x[:, :3].argmax(dim=1)
for _ in range(40):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
attributions = [
    IntegratedGradients(model).attribute(x[:4], target=0, n_steps=20),
    Saliency(model).attribute(x[:4], target=1),
    DeepLift(model).attribute(x[:4], target=2),
    LayerConductance(model, model[0]).attribute(x[:4], target=0, n_steps=10),
    PGD(model, nn.CrossEntropyLoss(reduction="none")).perturb(x[:4], 0.5, 0.1, 5, y[:4]),
]
print(loss.item())
print(digest(model, attributions))
