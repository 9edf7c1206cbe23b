# code: BS228
# variable: curve
# cause: return curve.numpy()
# fix: curve.detach().cpu().numpy()
import torch
from torch import nn


class Fit:
    def __init__(self, device):
        self.model = nn.Linear(1, 1).to(device)
        self.device = device

    def points(self):
        x = torch.linspace(-1, 1, 50, device=self.device)
        curve = self.model(x[:, None])[:, 0]
        return curve.numpy()


Fit(torch.device("meta")).points()
