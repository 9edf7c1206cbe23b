"""Trainer: a classifier with validation, a checkpoint and early stopping."""

import lightning as L
import torch
from _digest import digest
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(0, verbose=False)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)]


x = torch.randn(256, 10)
data = TensorDataset(x, x[:, :3].argmax(dim=1))
model = Classifier()
trainer = L.Trainer(
    max_epochs=4, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    gradient_clip_val=1.0, callbacks=[ModelCheckpoint("out", monitor="val_loss"), EarlyStopping("val_loss")],
)  # fmt: skip
trainer.fit(model, DataLoader(data, 32, shuffle=True), DataLoader(data, 64))
print(trainer.global_step, trainer.callback_metrics["val_loss"].item())
print(digest(model))
