# code: BS205
# variable: words
# cause: row[:2] = prompts[k]
# fix: on line 32, write `words = self.words(tokens).clone()`
import torch
from torch import nn

torch.manual_seed(0)


def ask(module, given, output):
    output.requires_grad_(True)


class Reader(nn.Module):
    """Reads words of which the first two are given by a small network."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.prompt = nn.Linear(4, 12)
        self.out = nn.Linear(6, 3)
        self.words.requires_grad_(False)
        self.words.register_forward_hook(ask)

    def forward(self, tokens, about):
        prompts = self.prompt(about).view(-1, 2, 6)
        words = self.join(prompts, tokens)
        return self.out(words.mean(1))

    def join(self, prompts, tokens):
        words = self.words(tokens)
        for k in range(len(tokens)):
            row = words[k]
            row[:2] = prompts[k]
        return words


reader = Reader()
optimizer = torch.optim.Adam([p for p in reader.parameters() if p.requires_grad], lr=0.01)
tokens, about, labels = torch.randint(0, 20, (8, 5)), torch.randn(8, 4), torch.randint(0, 3, (8,))
for turn in range(4):
    loss = nn.functional.cross_entropy(reader(tokens, about), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
