# code: BS200
# variable: this checkpoint() is not necessary
# cause: @torch.no_grad()
# fix: Remove line 20
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Tagger(nn.Module):
    """New embeddings below a pretrained encoder, and a new head above it."""

    def __init__(self, words=20, width=8, tags=3):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, tags)
        self.encoder.requires_grad_(False)

    @torch.no_grad()
    def encode(self, embedded):
        states, _ = self.encoder(embedded)
        return states + embedded

    def forward(self, sentences):
        states = checkpoint(self.encode, self.words(sentences), use_reentrant=True)
        return self.head(states)


torch.manual_seed(0)
tagger = Tagger()
trained = [*tagger.words.parameters(), *tagger.head.parameters()]
optimizer = torch.optim.Adam(trained, lr=0.01)
for step in range(4):
    sentences = torch.randint(0, 20, (6, 5))
    scores = tagger(sentences)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), (sentences % 3).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
