"""A Learner with callbacks, by the one cycle policy and in mixed stages of freezing."""

import torch
from _digest import digest
from fastai.basics import DataLoader, DataLoaders, Learner, accuracy, set_seed
from fastai.callback.schedule import Learner as Scheduled  # noqa: F401  (adds fit_one_cycle)
from fastai.callback.training import GradientAccumulation, GradientClip
from torch import nn

set_seed(0, reproducible=True)
x = torch.randn(320, 8)
data = list(zip(x, x[:, :3].argmax(dim=1), strict=True))
loaders = DataLoaders(DataLoader(data[:256], bs=32, shuffle=True), DataLoader(data[256:], bs=64))
body, head = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()), nn.Linear(16, 3)
learner = Learner(
    loaders, nn.Sequential(body, head), loss_func=nn.CrossEntropyLoss(), metrics=accuracy, cbs=[GradientClip(1.0)],
    splitter=lambda model: [list(model[0].parameters()), list(model[1].parameters())],
)  # fmt: skip
with learner.no_bar(), learner.no_logging():
    learner.freeze()
    learner.fit_one_cycle(1, 1e-2)
    learner.unfreeze()
    learner.fit_one_cycle(2, slice(1e-3, 1e-2), cbs=GradientAccumulation(64))
print([float(value) for value in learner.validate()])
print(digest(learner.model))
