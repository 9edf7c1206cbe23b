# code: BS201
# variable: photo and sketch
# cause: pooled_photos = pools["photo"].mix(photo)
# fix: `pooled_sketches = pools["sketch"].mix(sketch.detach())`
import random

import torch
from torch import nn


class Pool(list):
    """Fakes of earlier steps, half of which replace new ones."""

    def mix(self, batch):
        mixed = []
        for picture in batch.split(1):
            if len(self) < 16:
                self.append(picture)
            elif random.random() < 0.5:
                k = random.randrange(len(self))
                self[k], picture = picture, self[k]
            mixed.append(picture)
        return torch.cat(mixed)


random.seed(0), torch.manual_seed(0)
to_sketch, to_photo = nn.Linear(6, 6), nn.Linear(6, 6)
judges = nn.ModuleDict({"photo": nn.Linear(6, 1), "sketch": nn.Linear(6, 1)})
painters = torch.optim.Adam([*to_sketch.parameters(), *to_photo.parameters()])
critics = torch.optim.Adam(judges.parameters())
pools = {"photo": Pool(), "sketch": Pool()}

for step in range(10):
    sketch, photo = to_sketch(torch.randn(4, 6)), to_photo(torch.randn(4, 6))
    fooled = (judges["photo"](photo) - 1).square().mean() + (judges["sketch"](sketch) - 1).square().mean()
    painters.zero_grad()
    fooled.backward()
    painters.step()

    pooled_photos = pools["photo"].mix(photo)
    pooled_sketches = pools["sketch"].mix(sketch)
    told_apart = judges["photo"](pooled_photos).square().mean() + judges["sketch"](pooled_sketches).square().mean()
    critics.zero_grad()
    told_apart.backward()
    critics.step()
