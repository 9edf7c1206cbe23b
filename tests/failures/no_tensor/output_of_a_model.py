# code: BS222
# variable: outputs
# cause: outputs.backward()
# fix: outputs.loss.backward()
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class TaggerOutput:
    logits: torch.Tensor
    loss: torch.Tensor


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens, labels):
        logits = self.head(self.embed(tokens))
        return TaggerOutput(logits, nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()))


model = Tagger()
outputs = model(torch.randint(10, (2, 5)), torch.randint(3, (2, 5)))
outputs.backward()
