# code: BS219
# variable: codes
# cause: codes = stem(signals)
# fix: trains what computes codes, so its graph must reach the loss
# unsure: the worker's variables are in another process
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(stem, head, data):
    optimizer = torch.optim.Adam([*stem.parameters(), *head.parameters()])
    for code, value in DataLoader(data, batch_size=4, num_workers=1):
        optimizer.zero_grad()
        (head(code) - value).abs().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    signals, stem = torch.randn(8, 5), nn.Linear(5, 3)
    codes = stem(signals)
    train(stem, nn.Linear(3, 1), TensorDataset(codes, torch.rand(8, 1)))
