"""A segmentation loop of our own with metrics, gradient scaling and a schedule by plateau."""

import torch
from _digest import digest
from torch import nn
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryF1Score, BinaryJaccardIndex

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
metrics, mean = MetricCollection([BinaryF1Score(), BinaryJaccardIndex()]), MeanMetric()
images = torch.randn(64, 3, 16, 16)
masks = (images.sum(dim=1, keepdim=True) > 0).float()
for epoch in range(5):
    for x, y in zip(images.split(8), masks.split(8), strict=True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
            loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        mean.update(loss)
        metrics.update(logits.float().sigmoid(), y.int())
    plateau.step(mean.compute())
    print(epoch, {name: round(value.item(), 5) for name, value in metrics.compute().items()})
    mean.reset()
    metrics.reset()
print(digest(model))
