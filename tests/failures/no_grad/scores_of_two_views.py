# code: BS203
# variable: loss
# cause: chances = np.exp(logs.detach().numpy())
# fix: torch.stack(views).mean(axis=0)
import numpy as np
import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def chances_of(output):
    found = {}
    for side, logs in output.items():
        chances = np.exp(logs.detach().numpy())
        for k in range(2):
            found[side, k] = chances[:, k]
    return found


def over_views(chances):
    columns = []
    for k in range(2):
        views = [chances[side, k] for side in ("left", "right")]
        columns.append(np.mean(views, axis=0))
    return np.stack(columns, axis=1)


for step in range(3):
    left, right = model(torch.randn(5, 6)).chunk(2, dim=1)
    output = {"left": left.log_softmax(1)[:, :2], "right": right.log_softmax(1)[:, :2]}
    predicted = over_views(chances_of(output))
    target = torch.tensor(np.random.randint(0, 2, (5, 2)), dtype=torch.float32)
    loss = torch.nn.functional.binary_cross_entropy(torch.tensor(predicted), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
