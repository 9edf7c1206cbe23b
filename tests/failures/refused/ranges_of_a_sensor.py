# code: BS200
# variable: Found dtype Double but expected Float
# cause: distances = torch.as_tensor(readings[:, 5])
# fix: distances = distances.float()
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Sensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
        self.scale = nn.Parameter(torch.ones(1))

    def error(self, echoes, wanted):
        predicted = self.net(echoes)
        return F.huber_loss(self.scale * predicted.squeeze(1), wanted)


def calibrate(sensor, readings, steps):
    optimizer = torch.optim.Adam(sensor.parameters(), lr=1e-2)
    echoes = torch.from_numpy(readings[:, :5].astype("float32"))
    distances = torch.as_tensor(readings[:, 5])
    for _ in range(steps):
        optimizer.zero_grad()
        value = sensor.error(echoes, distances).float()
        value.backward()
        optimizer.step()
    return value.item()


calibrate(Sensor(), np.random.default_rng(0).normal(size=(32, 6)), 3)
