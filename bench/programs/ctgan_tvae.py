"""TVAE: a variational autoencoder of a table."""

import numpy as np
import pandas as pd
import torch
from _digest import digest
from ctgan import TVAE

torch.manual_seed(0)
np.random.seed(0)
table = pd.DataFrame({"age": np.random.normal(40, 9, 200), "kind": np.random.choice(["a", "b", "c"], 200)})
model = TVAE(epochs=4, batch_size=50, compress_dims=(32, 32), decompress_dims=(32, 32), embedding_dim=16)
model.set_random_state(0)
model.fit(table, ["kind"])
print(model.sample(5).shape)
print(digest(model.decoder))
