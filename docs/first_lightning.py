"""A fit with Lightning, whose optimizer was not given the head."""

import logging
import warnings

import lightning as L
import torch
from torch import nn

from backsight.integrations.lightning import Backsight

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.head = nn.Linear(32, 1)

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.mse_loss(self.head(self.encoder(x)), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.encoder.parameters(), lr=1e-2)  # and the head?


torch.manual_seed(0)
x = torch.randn(640, 4)
data = torch.utils.data.TensorDataset(x, x.prod(dim=1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=64)

trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    callbacks=[Backsight("runs/first", release=True)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), loader)
