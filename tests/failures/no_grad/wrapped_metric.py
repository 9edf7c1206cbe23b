# code: BS203
# variable: prediction
# cause: return self.function(prediction.detach(), target)
# fix: detach
import torch
from torch import nn


class Metric:
    def __init__(self, function):
        self.function = function

    def __call__(self, prediction, target):
        return self.function(prediction.detach(), target)


metrics = {"mse": Metric(nn.functional.mse_loss), "l1": Metric(nn.functional.l1_loss)}
model = nn.Linear(4, 1)
x, y = torch.randn(5, 4), torch.randn(5, 1)
loss = sum(weight * metrics[name](model(x), y) for name, weight in [("mse", 1.0), ("l1", 0.1)])
loss.backward()
