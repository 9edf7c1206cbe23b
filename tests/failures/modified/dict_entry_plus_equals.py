# code: BS202
# variable: batch["features"]
# cause: batch["features"] += noise_level * torch.randn_like(batch["features"])
# fix: batch["features"] = 
import torch
from torch import nn

pipeline = {"encode": nn.Linear(4, 8), "act": torch.tanh, "decode": nn.Linear(8, 4)}
noise_level = 0.1


def augment(batch):
    batch["features"] += noise_level * torch.randn_like(batch["features"])
    return batch


def forward(batch):
    batch["features"] = pipeline["act"](pipeline["encode"](batch["x"]))
    batch = augment(batch)
    batch["out"] = pipeline["decode"](batch["features"])
    return batch


batch = forward({"x": torch.randn(3, 4)})
loss = nn.functional.l1_loss(batch["out"], batch["x"])
loss.backward()
