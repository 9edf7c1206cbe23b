"""Next-item recommender (session GRU) with an exponential schedule and early reporting."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Sessions:
    """Users wander over a ring of items with a favourite stride."""

    def __init__(self, n, items=50, length=10, seed=0):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(0, items, (n, 1), generator=g)
        stride = torch.randint(1, 4, (n, 1), generator=g)
        self.clicks = (start + stride * torch.arange(length + 1)) % items
        slips = torch.rand(self.clicks.shape, generator=g) < 0.05
        self.clicks[slips] = torch.randint(0, items, (int(slips.sum()),), generator=g)

    def __len__(self):
        return len(self.clicks)

    def loader(self, size):
        for idx in torch.randperm(len(self)).split(size):
            c = self.clicks[idx]
            yield c[:, :-1], c[:, 1:]


class SessionGRU(nn.Module):
    def __init__(self, items=50, dim=32):
        super().__init__()
        self.embed = nn.Embedding(items, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, clicks):
        h, _ = self.gru(self.embed(clicks))
        return h @ self.embed.weight.t()


class Hook:
    def after_batch(self, trainer): ...
    def after_epoch(self, trainer): ...


class Schedule(Hook):
    def __init__(self, scheduler):
        self.scheduler = scheduler

    def after_batch(self, trainer):
        self.scheduler.step()


class Report(Hook):
    def __init__(self, valid):
        self.valid = valid

    @torch.no_grad()
    def after_epoch(self, trainer):
        hits = total = 0
        for seen, nxt in self.valid.loader(256):
            top = trainer.model(seen)[:, -1].topk(5).indices
            hits += (top == nxt[:, -1:]).any(1).sum().item()
            total += len(seen)
        print(f"epoch {trainer.epoch:2d} loss {trainer.mean_loss:.4f} hit@5 {hits / total:.3f}")


class Trainer:
    def __init__(self, model, optimizer, hooks):
        self.model, self.optimizer, self.hooks = model, optimizer, hooks

    def call(self, event):
        for hook in self.hooks:
            getattr(hook, event)(self)

    def fit(self, data, epochs):
        for self.epoch in range(epochs):
            losses = []
            for seen, nxt in data.loader(64):
                loss = F.cross_entropy(self.model(seen).flatten(0, 1), nxt.flatten())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
                self.call("after_batch")
            self.mean_loss = sum(losses) / len(losses)
            self.call("after_epoch")


def main():
    model = SessionGRU()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)   # 15 % less after each epoch
    Trainer(model, optimizer, [Schedule(decay), Report(Sessions(400, seed=1))]).fit(Sessions(2000), epochs=12)


main()
