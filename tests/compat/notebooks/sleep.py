"""The table, model and training that both notebooks of torchID begin with. Nights are drawn instead of downloaded."""

import numpy as np
import torch


def table(nights=120):
    """Return nights with the columns of a sleep tracker: four features and, last, the restlessness to be predicted."""
    draw = np.random.default_rng(7)
    revitalization = draw.normal(18, 3, nights)
    deep_sleep = draw.normal(70, 20, nights)
    heart_rate = draw.normal(62, 4, nights)
    overall = 40 + revitalization + 0.3 * deep_sleep - 0.1 * heart_rate + draw.normal(0, 2, nights)
    restlessness = 0.2 - 0.001 * overall + draw.normal(0, 0.01, nights)
    columns = [overall, revitalization, deep_sleep, heart_rate, restlessness]
    return torch.tensor(np.stack(columns, axis=1), dtype=torch.float32)


class SimpleModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.l1(torch.nn.functional.normalize(x, dim=1))
