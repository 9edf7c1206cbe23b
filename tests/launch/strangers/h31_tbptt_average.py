"""Truncated BPTT on a noisy signal with a hidden state carried over chunks, and weight averaging for evaluation."""
import numpy as np
import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def signal(n, seed):
    rng = np.random.default_rng(seed)
    x = np.zeros(n)
    for t in range(2, n):
        x[t] = 1.8 * x[t - 1] - 0.95 * x[t - 2] + 0.1 * rng.normal()
    return torch.tensor(x / x.std(), dtype=torch.float32)


class Filter(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.cell = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, state=None):
        h, state = self.cell(x, state)
        return self.out(h), state


def chunks(streams, length):
    for s in range(0, streams.size(1) - length, length):
        yield streams[:, s:s + length, None], streams[:, s + 1:s + length + 1, None]


def detach(state):
    return None if state is None else state.detach()


class TBPTT:
    def __init__(self, model, accumulate=2):
        self.model = model
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
        self.opt = torch.optim.Adam(model.parameters(), lr=5e-3)
        self.accumulate = accumulate

    def epoch(self, streams, length):
        state, total, count = None, 0.0, 0
        self.opt.zero_grad()
        for i, (x, y) in enumerate(chunks(streams, length), 1):
            pred, state = self.model(x, detach(state))
            loss = nn.functional.mse_loss(pred, y)
            (loss / self.accumulate).backward()
            if i % self.accumulate == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                self.opt.zero_grad()
                self.average.update_parameters(self.model)
            total, count = total + loss.item(), count + 1
        return total / count

    @torch.no_grad()
    def test(self, x):
        pred, _ = self.average(x[None, :-1, None])
        return nn.functional.mse_loss(pred[0, :, 0], x[1:]).item()


def main():
    torch.manual_seed(0)
    streams = signal(8 * 400, 0).view(8, 400)
    trainer = TBPTT(Filter())
    for epoch in range(15):
        loss = trainer.epoch(streams, length=20)
        print(f"epoch {epoch} train {loss:.4f} averaged model on test {trainer.test(signal(600, 1)):.4f}")


if __name__ == "__main__":
    main()
