"""TabNet: attention over columns, fitted like scikit-learn."""

import numpy as np
import torch
from _digest import digest
from pytorch_tabnet.tab_model import TabNetClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 8)).astype(np.float32)
y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(np.int64)
model = TabNetClassifier(
    n_d=8, n_a=8, n_steps=2, seed=0, verbose=0, optimizer_params={"lr": 2e-2}, device_name="cpu",
    scheduler_fn=torch.optim.lr_scheduler.StepLR, scheduler_params={"step_size": 2, "gamma": 0.9},
)  # fmt: skip
model.fit(X[:320], y[:320], eval_set=[(X[320:], y[320:])], max_epochs=4, batch_size=64, virtual_batch_size=32)
print((model.predict(X[320:]) == y[320:]).mean())
print(digest(model.network))
