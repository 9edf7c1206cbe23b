# code: BS201
# variable: pred
# cause: pred = self.model(x)
# fix: into closure()
import torch
from torch import nn
class Fitter:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.LBFGS(model.parameters(), max_iter=5)
    def fit(self, x, y, rounds=2):
        for _ in range(rounds):
            pred = self.model(x)
            def closure():
                self.opt.zero_grad()
                loss = nn.functional.mse_loss(pred, y)
                loss.backward()
                return loss
            self.opt.step(closure)
Fitter(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))).fit(torch.randn(10, 2), torch.randn(10, 1))
