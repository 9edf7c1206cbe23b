"""A U-Net segments made-up volumes, with Dice loss and sliding windows."""

import torch
from _digest import digest
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.utils import set_determinism

set_determinism(seed=0)
model = UNet(3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_function, metric = DiceCELoss(to_onehot_y=True, softmax=True), DiceMetric(include_background=False)
volumes = torch.randn(12, 1, 16, 16, 16)
volumes[:, :, 4:12, 4:12, 4:12] += 2
labels = torch.zeros_like(volumes)
labels[:, :, 4:12, 4:12, 4:12] = 1
for epoch in range(4):
    for x, y in zip(volumes.split(2), labels.split(2), strict=True):
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
model.eval()
with torch.no_grad():
    predicted = sliding_window_inference(volumes[:2], (8, 8, 8), 4, model).argmax(dim=1, keepdim=True)
    metric(predicted, labels[:2])
print(metric.aggregate().item())
print(digest(model))
