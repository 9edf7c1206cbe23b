# code: BS202
# variable: state
# cause: state[parent] = torch.tanh(message) + state[parent]
# fix: new = state.clone(); new[parent] = torch.tanh(message) + state[parent]; state = new
import torch
from torch import nn


class UpTheTree(nn.Module):
    def __init__(self, size=5):
        super().__init__()
        self.start, self.up = nn.Linear(2, size), nn.Linear(size, size)

    def forward(self, points, levels):
        state = torch.tanh(self.start(points))
        for children, parent in levels:
            message = self.up(state[children].sum(1)) * state[parent]
            state[parent] = torch.tanh(message) + state[parent]
        return state[0].sum()


torch.manual_seed(0)
levels = [(torch.tensor([[3, 4], [5, 6]]), torch.tensor([1, 2])), (torch.tensor([[1, 2]]), torch.tensor([0]))]
model = UpTheTree()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    loss = (model(torch.randn(7, 2), levels) - 1).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
