# code: BS223
# variable: model.cells.1.gate
# cause: self.gate, self.tables = draw(width)
# fix: self.tables = torch.nn.ParameterDict(self.tables)
import torch


def draw(width):
    return torch.randn(width), {"in": torch.randn(width, width), "out": torch.randn(width, width)}


class Cell(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.tables = draw(width)

    def forward(self, x):
        return torch.sigmoid(self.gate) * (x @ self.tables["in"] @ self.tables["out"])


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = torch.nn.Sequential(Cell(3), Cell(3))

    def forward(self, x):
        return self.cells(x)


torch.manual_seed(0)
model = Stack()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
