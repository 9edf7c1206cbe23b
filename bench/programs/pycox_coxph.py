"""Survival analysis: Cox's proportional hazards and discrete hazards, fitted by torchtuples."""

import numpy as np
import torch
import torchtuples as tt
from _digest import digest
from pycox.models import CoxPH, LogisticHazard

np.random.seed(0)
torch.manual_seed(0)
x = np.random.randn(200, 6).astype("float32")
durations = np.random.exponential(np.exp(x[:, 0])).astype("float32")
events = (np.random.rand(200) > 0.3).astype("float32")
net = tt.practical.MLPVanilla(6, [16, 16], 1, batch_norm=True, dropout=0.1, output_bias=False)
cox = CoxPH(net, tt.optim.Adam(0.01))
log = cox.fit(x, (durations, events), batch_size=64, epochs=8, verbose=False)
print(log.to_pandas().iloc[-1].tolist())

transform = LogisticHazard.label_transform(8)
target = transform.fit_transform(durations, events)
hazard = LogisticHazard(
    tt.practical.MLPVanilla(6, [16], transform.out_features), tt.optim.AdamW(0.01), duration_index=transform.cuts
)
hazard.fit(x, target, batch_size=64, epochs=8, verbose=False, val_data=(x, target))
print(hazard.predict_surv_df(x[:3]).shape)
print(digest(net, hazard.net))
