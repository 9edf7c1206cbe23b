"""CTGAN: a table with categories is learnt and sampled."""

import numpy as np
import pandas as pd
import torch
from _digest import digest
from ctgan import CTGAN

torch.manual_seed(0)
np.random.seed(0)
table = pd.DataFrame({"age": np.random.normal(40, 9, 200), "kind": np.random.choice(["a", "b", "c"], 200)})
model = CTGAN(epochs=3, batch_size=50, pac=5, generator_dim=(32, 32), discriminator_dim=(32, 32))
model.set_random_state(0)
model.fit(table, ["kind"])
print(model.sample(5).shape)
print(digest(model._generator))
