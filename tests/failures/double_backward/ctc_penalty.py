# code: BS215
# variable: ctc_loss
# cause: loss = criterion(log_probs, batch["targets"], batch["lengths"], batch["target_lengths"])
# fix: create_graph=True
import torch
from torch import nn

config = {"penalty": 0.1}
encoder = nn.GRU(4, 8)
head = nn.Linear(8, 5)
criterion = nn.CTCLoss()


def step(batch):
    audio = batch["audio"].requires_grad_()
    log_probs = head(encoder(audio)[0]).log_softmax(-1)
    loss = criterion(log_probs, batch["targets"], batch["lengths"], batch["target_lengths"])
    if config["penalty"]:
        (gradient,) = torch.autograd.grad(loss, audio, create_graph=True)
        loss = loss + config["penalty"] * gradient.square().sum()
    loss.backward()


step(
    {
        "audio": torch.randn(6, 1, 4),
        "targets": torch.tensor([[1, 2]]),
        "lengths": torch.tensor([6]),
        "target_lengths": torch.tensor([2]),
    }
)
