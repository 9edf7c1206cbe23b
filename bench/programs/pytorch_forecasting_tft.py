"""A temporal fusion transformer forecasts series, by Lightning's Trainer."""

import lightning.pytorch as pl
import numpy as np
import pandas as pd
from _digest import digest
from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
from pytorch_forecasting.metrics import QuantileLoss

pl.seed_everything(0, verbose=False)
rows = [
    {"series": str(s), "t": t, "value": np.sin(t / 4 + s) + 0.1 * np.random.randn() + 2}
    for s in range(6)
    for t in range(60)
]
training = TimeSeriesDataSet(
    pd.DataFrame(rows), time_idx="t", target="value", group_ids=["series"], max_encoder_length=16,
    max_prediction_length=4, time_varying_known_reals=["t"], time_varying_unknown_reals=["value"],
    static_categoricals=["series"],
)  # fmt: skip
model = TemporalFusionTransformer.from_dataset(
    training, learning_rate=0.03, hidden_size=8, attention_head_size=2, dropout=0.1, hidden_continuous_size=4,
    loss=QuantileLoss(), log_interval=-1,
)  # fmt: skip
trainer = pl.Trainer(
    max_epochs=1, limit_train_batches=12, accelerator="cpu", logger=False, enable_progress_bar=False,
    enable_model_summary=False, enable_checkpointing=False, gradient_clip_val=0.1,
)  # fmt: skip
trainer.fit(model, training.to_dataloader(train=True, batch_size=16, num_workers=0))
print(trainer.global_step)
print(digest(model))
