# code: BS201
# variable: self.hidden
# cause: logits, self.hidden = self.model(tokens[:, :-1], self.hidden)
# fix: detach
import torch
import torch.nn.functional as F
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens, hidden):
        out, hidden = self.rnn(self.embed(tokens), hidden)
        return self.head(out), hidden


class Trainer:
    def __init__(self, config):
        self.model = CharModel(config["vocab"], config["width"])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config["lr"])
        self.hidden = None

    def train_step(self, tokens):
        logits, self.hidden = self.model(tokens[:, :-1], self.hidden)
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, batches):
        for tokens in batches:
            self.train_step(tokens)


trainer = Trainer({"vocab": 20, "width": 16, "lr": 1e-3})
trainer.fit([torch.randint(0, 20, (4, 9)) for _ in range(3)])
