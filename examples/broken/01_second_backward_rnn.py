"""A character model that carries its hidden state from one window of text to the next.

What is wrong: `hidden` is still attached to the graph of the previous window, which `loss.backward()` has freed.
PyTorch says:  Trying to backward through the graph a second time
Fix:          detach after each step, `hidden = hidden.detach()` (truncated backpropagation through
               time). `retain_graph=True` won't help: the old graph saved weights that the optimizer has changed.
"""

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
VOCABULARY = sorted(set(TEXT))


class CharRNN(nn.Module):
    def __init__(self, vocabulary_size, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.Linear(width, vocabulary_size)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.embedding(tokens), hidden)
        return self.decoder(output), hidden


def main():
    torch.manual_seed(0)
    tokens = torch.tensor([VOCABULARY.index(character) for character in TEXT])
    model = CharRNN(len(VOCABULARY))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    hidden = None
    for start in range(0, len(tokens) - 17, 16):
        window = tokens[start : start + 17].unsqueeze(0)
        logits, hidden = model(window[:, :-1], hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
