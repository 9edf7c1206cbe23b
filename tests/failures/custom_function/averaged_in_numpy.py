# code: BS208
# variable: self.model.0.weight
# cause: p.grad = torch.from_numpy(np.asarray(delta[name]))
# fix: torch.from_numpy(np.asarray(delta[name])).to(p.dtype)
import numpy as np
import torch
from torch import nn


class Server:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())

    def apply(self, delta):
        for name, p in self.model.named_parameters():
            p.grad = torch.from_numpy(np.asarray(delta[name]))
        self.optimizer.step()


server = Server(nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)))
weights = np.asarray([1, 3]) / 4
updates = [{n: np.ones(tuple(p.shape)) for n, p in server.model.named_parameters()} for _ in weights]
server.apply({n: sum(w * u[n] for w, u in zip(weights, updates)) for n in updates[0]})
