# code: BS201
# variable: data.vectors
# cause: self.vectors = embedding(tokens)
# fix: vectors = model.embedding(vectors)
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class EmbeddedItems(Dataset):
    """Rows are embedded once, here, to save time in the loop."""

    def __init__(self, tokens, labels, embedding):
        self.tokens, self.labels = tokens, labels
        self.vectors = embedding(tokens)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.vectors[i], self.labels[i]


class TextCNN(nn.Module):
    def __init__(self, vocab=50, d=16, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.conv = nn.Conv1d(d, 24, 3, padding=1)
        self.fc = nn.Linear(24, classes)

    def forward(self, vectors):
        h = F.relu(self.conv(vectors.transpose(1, 2)))
        return self.fc(h.amax(-1))


def corpus(n, length=12, vocab=50):
    tokens = torch.randint(0, vocab, (n, length))
    labels = (tokens < 10).sum(1).clamp(max=2)
    return tokens, labels


def train(epochs=3):
    torch.manual_seed(0)
    model = TextCNN()
    tokens, labels = corpus(256)
    data = EmbeddedItems(tokens, labels, model.embedding)
    loader = DataLoader(data, batch_size=32, shuffle=True)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        total = 0.0
        for vectors, y in loader:
            loss = F.cross_entropy(model(vectors), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(epoch, total / len(loader))


train()
