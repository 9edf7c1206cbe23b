"""BiLSTM part-of-speech style tagger on a made-up language."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, N_TAGS, VOCAB = 0, 7, 60


class ToyLanguage(Dataset):
    """The tag of a word depends on the word class and on the class of its left neighbour."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            length = int(torch.randint(5, 13, (1,), generator=g))
            words = torch.randint(1, VOCAB, (length,), generator=g)
            left = torch.cat([torch.zeros(1, dtype=torch.long), words[:-1]])
            self.items.append((words, (words % 4 + left % 4) % N_TAGS))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(samples):
    words = pad_sequence([w for w, _ in samples], batch_first=True, padding_value=PAD)
    tags = pad_sequence([t for _, t in samples], batch_first=True, padding_value=-100)
    return words, tags


class Tagger(nn.Module):
    def __init__(self, dim=32, hidden=48):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(2 * hidden, N_TAGS)

    def forward(self, words):
        h, _ = self.lstm(self.embedding(words))
        return self.fc(self.dropout(h))


class SequenceCrossEntropy(nn.Module):
    def __init__(self):
        super().__init__()
        self.ce = nn.CrossEntropyLoss(ignore_index=-100)

    def forward(self, logits, tags):
        batch, length, n_tags = logits.shape
        logits = logits.reshape(batch, n_tags, length)
        return self.ce(logits, tags)


def tag_accuracy(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for words, tags in loader:
            keep = tags != -100
            right += (model(words).argmax(-1) == tags)[keep].sum().item()
            total += keep.sum().item()
    return right / total


def train(model, loader, dev, epochs, lr):
    criterion = SequenceCrossEntropy()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(1, epochs + 1):
        model.train()
        epoch_loss = 0.0
        for words, tags in loader:
            optimizer.zero_grad()
            loss = criterion(model(words), tags)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            epoch_loss += loss.item()
        print(f"epoch {epoch} loss {epoch_loss / len(loader):.3f} dev acc {tag_accuracy(model, dev):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train_loader = DataLoader(ToyLanguage(800, 0), batch_size=32, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(ToyLanguage(200, 1), batch_size=100, collate_fn=collate)
    train(Tagger(), train_loader, dev_loader, epochs=6, lr=6e-3)
