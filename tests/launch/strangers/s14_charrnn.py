import torch
import torch.nn as nn

torch.manual_seed(0)
text = 'the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. ' * 30
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, 32)
        self.lstm = nn.LSTM(32, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        o, state = self.lstm(self.emb(x), state)
        return self.fc(o), state


def batches(bs, seq):
    n = (len(data) - 1) // bs
    xs, ys = data[:n * bs].view(bs, n), data[1:n * bs + 1].view(bs, n)
    for i in range(0, n - seq, seq):
        yield xs[:, i:i + seq], ys[:, i:i + seq]


model = CharRNN(len(chars))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
step = 0
for epoch in range(20):
    state = None
    for x, y in batches(16, 16):
        logits, state = model(x, state)
        state = tuple(s.detach() for s in state)
        loss = criterion(logits.reshape(-1, len(chars)), y.reshape(-1))
        loss.backward()
        optimizer.step()
        step += 1
    if epoch % 4 == 3:
        print(f'epoch {epoch + 1:2d} step {step:3d} loss {loss.item():.4f}')
