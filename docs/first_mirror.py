"""A small transformer, recorded, and shown in TensorBoard while it trains."""

import tempfile
from itertools import groupby
from pathlib import Path

import torch
from torch import nn

import backsight as bs
from backsight.integrations.mirror import Mirror, Sink


class Names(Sink):
    """Remembers which charts there are."""

    def __init__(self):
        self.charted = {}

    def charts(self, charts):
        self.charted.update((chart.name, len(chart.steps)) for chart in charts)


torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
model = nn.Sequential(
    nn.Embedding(64, 32), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(32, 64)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

with tempfile.TemporaryDirectory() as folder:
    names = Names()
    with bs.record(model, optimizer, run=f"{folder}/first") as rec, Mirror(rec, ["tensorboard", names]):
        for _ in range(20):
            tokens = torch.randint(64, (8, 16))
            loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tokens)
            rec.mark(loss=loss)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    tensors, points = bs.open_run(rec.run).tensors, min(names.charted.values())
    print(f"{len(tensors)} tensors, {len(names.charted)} charts of {points} points:")
    for section, charts in groupby(sorted(names.charted), lambda name: name.partition("/")[0]):
        print(f"  {section}:", *(name.partition("/")[2] for name in charts))
    assert list(Path(folder, "tensorboard", "first").glob("events.out.tfevents.*"))
