# code: BS214
# variable: row
# cause: @torch.inference_mode()
# fix: Use torch.no_grad() instead of torch.inference_mode()
import torch
from torch import nn

model, head = nn.Linear(4, 3), nn.Linear(3, 2)
x = torch.randn(5, 4)


class Store:
    def __init__(self):
        self.rows = []

    def add(self, batch):
        self.rows.append(scaled(batch))

    @torch.inference_mode()
    def fill(self, batches):
        for batch in batches:
            self.add(batch)


def scaled(batch):
    return model(batch).mul(2)


store = Store()
store.fill(x.split(2))
row = store.rows[-1][:3]
head(row).sum()
