"""PyKEEN's pipeline: TransE embeds a small knowledge graph."""

import numpy as np
from _digest import digest
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

rng = np.random.default_rng(0)
triples = np.unique(rng.integers(0, 30, (300, 3)) % np.array([30, 4, 30]), axis=0)
labelled = np.array([[f"e{h}", f"r{r}", f"e{t}"] for h, r, t in triples])
training, testing = TriplesFactory.from_labeled_triples(labelled).split([0.8, 0.2], random_state=0)
result = pipeline(
    training=training, testing=testing, model="TransE", model_kwargs={"embedding_dim": 16}, random_seed=0,
    training_kwargs={"num_epochs": 6, "batch_size": 64, "use_tqdm": False, "use_tqdm_batch": False}, device="cpu",
    evaluation_kwargs={"use_tqdm": False},
)  # fmt: skip
print([round(loss, 6) for loss in result.losses])
print(digest(result.model))
