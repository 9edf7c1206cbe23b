# code: BS219
# variable: codes
# cause: codes = encoder(images)
# fix: On line 18, write `codes = encoder(images).detach()`
# unsure: the worker's variables are in another process
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(head, data):
    for code, label in DataLoader(data, batch_size=4, num_workers=1):
        nn.functional.cross_entropy(head(code), label).backward()


if __name__ == "__main__":
    images, encoder = torch.randn(8, 5), nn.Linear(5, 3)
    codes = encoder(images)
    train(nn.Linear(3, 2), TensorDataset(codes, torch.randint(0, 2, (8,))))
