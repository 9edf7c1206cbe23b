# code: BS212
# variable: loss
# cause: decay = 0.01 * (user.pow(2).sum() + item.pow(2).sum() + bias.pow(2))
# fix: bias.pow(2).sum()
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Ranking(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(20, 4)
        self.items = nn.Embedding(30, 4)
        self.biases = nn.Parameter(torch.zeros(30))

    def forward(self, users, liked, other):
        user, item, bias = self.users(users), self.items(liked), self.biases[liked]
        better = (user * item).sum(dim=1) + bias
        worse = (user * self.items(other)).sum(dim=1) + self.biases[other]
        likelihood = F.logsigmoid(better - worse).sum()
        decay = 0.01 * (user.pow(2).sum() + item.pow(2).sum() + bias.pow(2))
        return decay - likelihood


model = Ranking()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randint(20, (6,)), torch.randint(30, (6,)), torch.randint(30, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
