import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReviewData:
    def __init__(self, n=600, length=12, vocab=60, batch=30):
        rng = np.random.RandomState(0)
        self.tokens = rng.randint(0, vocab, size=(n, length))
        self.labels = ((self.tokens < 10).sum(1) > (self.tokens >= 50).sum(1)).astype(np.int64)
        self.batch = batch
        self.rng = rng

    def on_epoch_end(self):
        self.rng.shuffle(self.tokens)
        self.rng.shuffle(self.labels)

    def __iter__(self):
        for i in range(0, len(self.labels), self.batch):
            yield torch.from_numpy(self.tokens[i:i + self.batch].copy()), torch.from_numpy(self.labels[i:i + self.batch].copy())


class TextCNN(nn.Module):
    def __init__(self, vocab=60):
        super().__init__()
        self.emb = nn.Embedding(vocab, 16)
        self.convs = nn.ModuleList([nn.Conv1d(16, 16, k) for k in (1, 2, 3)])
        self.fc = nn.Linear(48, 2)

    def forward(self, t):
        e = self.emb(t).transpose(1, 2)
        return self.fc(torch.cat([F.relu(c(e)).amax(-1) for c in self.convs], 1))


torch.manual_seed(0)
data, model = ReviewData(), TextCNN()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    losses, hits = [], 0
    for x, y in data:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        hits += (out.argmax(1) == y).sum().item()
    data.on_epoch_end()
    print(f'epoch {epoch} loss {np.mean(losses):.4f} acc {hits / 600:.3f}')
