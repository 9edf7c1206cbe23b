# code: BS201
# variable: loss
# file: <ipython-input-3-train>
# line: 3
# fix: Recompute
import linecache

import torch

CELLS = {
    "<ipython-input-1-model>": """
from torch import nn
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 3), torch.randn(16, 1)
""",
    "<ipython-input-2-loss>": """
pred = model(x)
loss = ((pred - y) ** 2).mean()
""",
    "<ipython-input-3-train>": """
optimizer.zero_grad()
loss.backward()
optimizer.step()
print("loss", loss.item())
""",
}
notebook = {"torch": torch, "__name__": "__main__", "print": lambda *args: None}


def run_cell(name):
    source = CELLS[name]
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), notebook)


for name in ["<ipython-input-1-model>", "<ipython-input-2-loss>", "<ipython-input-3-train>", "<ipython-input-3-train>"]:
    run_cell(name)
