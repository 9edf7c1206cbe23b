# code: BS224
# variable: scaler.step
# line: 13
# fix: below line 14, `scaler.step(head)`
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
body, head = (torch.optim.SGD([each], lr=0.1) for each in model.parameters())
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    scaler.scale(model(x).sum()).backward()
    scaler.step(body)
    scaler.step(head)
