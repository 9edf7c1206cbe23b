"""What the healthy trainings that are recorded share.

Each program takes `record`, which it calls with the model and the optimizer, as it would call `backsight.record`.
Nothing graver than a note is to be found in what it recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import backsight as bs

Record = Callable[..., bs.Recorder]
Batches = Callable[[int], tuple[torch.Tensor, torch.Tensor]]
STEPS = 30
"""More than it takes for a lasting state to be spoken of."""


def digits(batch: int = 64) -> Batches:
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)

    def take(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.arange(step * batch, (step + 1) * batch) % len(labels)
        return images[at], labels[at]

    return take


def fit(
    record: Record,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[int], torch.Tensor],
    schedule: Any = None,
    steps: int = STEPS,
) -> None:
    """Train in the usual way, with the loss as a mark."""
    with record(model, optimizer) as rec:
        for step in range(steps):
            optimizer.zero_grad()
            loss = loss_of(step)
            loss.backward()
            rec.mark(loss=loss)
            optimizer.step()
            if schedule is not None:
                schedule.step()


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(32 * 4, 10)
        self.unused = nn.Linear(32 * 4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.relu(self.norm1(self.conv1(images))), 2)
        x = F.max_pool2d(self.relu(self.norm2(self.conv2(x))), 2)
        return self.head(self.dropout(x.flatten(1)))
