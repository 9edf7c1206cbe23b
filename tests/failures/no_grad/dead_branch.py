# code: BS203
# variable: loss
# cause: loss = torch.zeros(())
# fix: never
import torch
from torch import nn


def detection_loss(model, images, boxes, threshold=0.5):
    loss = torch.zeros(())
    for image, box in zip(images, boxes):
        prediction = model(image)
        overlap = torch.sigmoid(prediction).mean().item()
        if len(box) and overlap > threshold + 1:
            loss = loss + nn.functional.l1_loss(prediction, box)
    return loss


model = nn.Linear(5, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, boxes = torch.randn(3, 5), torch.rand(3, 4)
loss = detection_loss(model, images, boxes)
optimizer.zero_grad()
loss.backward()
