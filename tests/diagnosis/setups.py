"""How the programs of explanations begin: a recurrent cell and a classifier, each with its optimizer."""

RECURRENT = """
from torch import nn
import torch.nn.functional as F
rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)
"""

HIDDEN_STATE = f"""{RECURRENT}
hidden = torch.zeros(2, 8)
for step in range(3):
    hidden = rnn(x, hidden)  # here
    loss = head(hidden).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

CLASSIFIER = """
from torch import nn
import torch.nn.functional as F
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
"""
