"""Fine-tuning a new head on a frozen backbone, with one line too many under `torch.no_grad()`.

What is wrong: the head runs inside the `no_grad` block too, so its forward pass was not recorded.
PyTorch says:  element 0 of tensors does not require grad and does not have a grad_fn
Fix:          end the block after the backbone: `logits = self.head(features)` must be dedented one level.
"""

import torch
from torch import nn


class FineTuner:
    def __init__(self, backbone, head):
        self.backbone = backbone.eval()
        self.head = head
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.head.parameters(), lr=1e-3)

    def training_step(self, images, labels):
        with torch.no_grad():  # the backbone is frozen
            features = self.backbone(images)
            logits = self.head(features)
        return self.criterion(logits, labels)

    def fit(self, batches):
        for images, labels in batches:
            self.optimizer.zero_grad()
            loss = self.training_step(images, labels)
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
batches = [(torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))) for _ in range(4)]
FineTuner(backbone, head=nn.Linear(16, 10)).fit(batches)
