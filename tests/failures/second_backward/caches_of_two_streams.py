# code: BS201
# variable: caches[stream]
# cause: loss, caches[stream] = decode(x, caches[stream])
# fix: caches[stream] = {key: h.detach() for key, h in caches[stream].items()}
# unsure: which element a variable index stands for is read from the text
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def decode(x, cache):
    keys = model(x) if cache is None else torch.cat([cache["k"], model(x)])
    return torch.tanh(keys).sum(), {"k": keys[-8:]}


caches = [None, None]
for step in range(3):
    for stream in range(2):
        loss, caches[stream] = decode(x, caches[stream])
        loss.backward()
