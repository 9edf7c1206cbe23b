# code: BS214
# variable: context
# cause: with torch.inference_mode(mode=not self.finetune):
# fix: torch.set_grad_enabled(self.finetune)
import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, finetune):
        super().__init__()
        self.finetune = finetune
        self.vision = nn.Linear(8, 6)
        self.query = nn.Linear(4, 6)

    def encode(self, image):
        with torch.inference_mode(mode=not self.finetune):
            return self.vision(image)

    def forward(self, image, text):
        context = self.encode(image)
        return (self.query(text) * context).sum(-1)


model = Captioner(finetune=False)
model(torch.randn(2, 8), torch.randn(2, 4)).sum().backward()
