# code: BS201
# variable: first.backward
# cause: optimizer.zero_grad(); first.backward(); second.backward(); optimizer.step()
# fix: (first + second).backward()
import torch
m = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
out = torch.tanh(m(torch.randn(4, 3)))
first, second = out[:, 0].mean(), out[:, 1].mean()
optimizer.zero_grad(); first.backward(); second.backward(); optimizer.step()
