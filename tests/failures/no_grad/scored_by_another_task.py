# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: above line 19
import asyncio

import torch
from torch import nn


class Ranker:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.best = 0.0

    async def score(self, rows):
        while True:
            with torch.no_grad():
                await asyncio.sleep(0.01)
                self.best = max(self.best, self.net(rows).max().item())

    async def fit(self, rows, clicks):
        for _ in range(4):
            loss = nn.functional.mse_loss(self.net(rows), clicks)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            await asyncio.sleep(0)


async def main():
    ranker, rows = Ranker(), torch.randn(6, 4)
    watching = asyncio.create_task(ranker.score(rows))
    await asyncio.sleep(0)
    await ranker.fit(rows, torch.rand(6, 1))
    watching.cancel()


asyncio.run(main())
