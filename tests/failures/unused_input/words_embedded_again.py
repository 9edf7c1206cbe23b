# code: BS204
# variable: shift
# cause: return tagger(words)
# fix: return tagger.tag(vectors)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 12)
        self.rnn = nn.GRU(12, 12, batch_first=True)
        self.tags = nn.Linear(12, 4)

    def tag(self, vectors):
        return self.tags(self.rnn(vectors)[0])

    def forward(self, words):
        return self.tag(self.table(words))


def smoothness(predict, vectors, reference, radius=0.01):
    shift = (radius * torch.randn_like(vectors)).requires_grad_()
    shifted = vectors + shift
    change = F.mse_loss(predict(shifted), reference.detach())
    (direction,) = torch.autograd.grad(change, shift)
    return F.mse_loss(predict(vectors + radius * F.normalize(direction, dim=-1)), reference)


torch.manual_seed(0)
tagger = Tagger()
optimizer = torch.optim.Adam(tagger.parameters())
for step in range(3):
    words, tags = torch.randint(0, 30, (4, 6)), torch.randint(0, 4, (4, 6))
    scores = tagger(words)

    def predict(vectors):
        return tagger(words)

    loss = F.cross_entropy(scores.transpose(1, 2), tags)
    loss = loss + smoothness(predict, tagger.table(words), scores)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
