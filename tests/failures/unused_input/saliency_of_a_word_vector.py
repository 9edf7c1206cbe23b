# code: BS204
# variable: vectors
# cause: scores = model(ids)
# fix: model(ids, vectors=vectors)
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.rnn = nn.GRU(8, 12, batch_first=True)
        self.out = nn.Linear(12, 4)

    def forward(self, ids):
        h = self.words(ids)
        h, _ = self.rnn(h)
        return self.out(h[:, -1])


def saliency(model, ids):
    vectors = model.words(ids).detach().clone().requires_grad_()
    scores = model(ids)
    (slope,) = torch.autograd.grad(scores.max(1).values.sum(), vectors)
    return slope.norm(dim=-1)


torch.manual_seed(0)
print(saliency(Tagger(), torch.randint(0, 30, (2, 5))))
