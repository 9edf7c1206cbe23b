# code: BS201
# variable: target
# cause: return self.old(batch).softmax(1)
# fix: `return self.old(batch).softmax(1).detach()`
# The pool's thread has a grad mode of its own, so what it computes has a graph, which every epoch uses again.
import concurrent.futures

import torch
from torch import nn


class Scorer:
    def __init__(self, old):
        self.old = old
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def score(self, batch):
        return self.old(batch).softmax(1)

    @torch.no_grad()
    def start(self, batches):
        return [self.pool.submit(self.score, batch) for batch in batches]


def distance(output, target):
    mean = torch.log(target)
    return (output.log_softmax(1) - mean).square().sum()


torch.manual_seed(0)
scorer = Scorer(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
batches = [torch.randn(5, 6) for _ in range(4)]
started = scorer.start(batches)
small = nn.Linear(6, 3)
optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
try:
    for epoch in range(2):
        for batch, score in zip(batches, started):
            loss = distance(small(batch), score.result())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
finally:
    scorer.pool.shutdown()
