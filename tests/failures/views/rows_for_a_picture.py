# code: BS209
# variable: row
# cause: row.sub_(low).div_(high - low)
# fix: rows = rows.detach().clone()
import torch
from torch import nn


def stretch(row, low, high):
    row.sub_(low).div_(high - low)


def picture(rows):
    for row in rows:
        stretch(row, float(row.min()), float(row.max()))
    return rows.reshape(-1).tolist()


layer = nn.Linear(5, 3)
picture(layer.weight.unsqueeze(1))
