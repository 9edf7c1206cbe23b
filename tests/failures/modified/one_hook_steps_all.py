# code: BS202
# variable: student.3.weight
# cause: self.optimizer.step()
# fix: below line 34
import torch
from torch import nn


class Fused:
    """Steps as soon as the last layer has its gradient."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        model[-1].weight.register_post_accumulate_grad_hook(self.arrived)

    def arrived(self, _):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


torch.manual_seed(0)
student = nn.Sequential(
    nn.Flatten(),
    nn.Linear(12, 24),
    nn.ReLU(),
    nn.Linear(24, 24),
    nn.Linear(24, 3),
)
fused = Fused(student)
for _ in range(3):
    image, label = torch.randn(5, 3, 4), torch.randint(0, 3, (5,))
    loss = nn.functional.cross_entropy(fused.model(image), label)
    loss.backward()
