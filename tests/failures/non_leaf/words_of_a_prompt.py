# code: BS206
# variable: prompts.words[0]
# cause: word = sentence[:, i]
# fix: Pass the leaf itself, prompts.sentence
import torch
from torch import nn


class Prompts:
    def __init__(self, count):
        self.sentence = nn.Parameter(torch.randn(1, count, 4))
        self.words = []
        self.split(self.sentence)

    def split(self, sentence):
        for i in range(sentence.shape[1]):
            word = sentence[:, i]
            self.words.append(word)


torch.manual_seed(0)
prompts, head = Prompts(3), nn.Linear(4, 1)
optimizer = torch.optim.Adam(prompts.words, lr=0.1)
for _ in range(2):
    loss = sum(head(word).square().mean() for word in prompts.words)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
