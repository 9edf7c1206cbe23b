# code: BS203
# variable: loss
# cause: loss = scores.argmax(1).float().mean()
# fix: Compute the loss from scores itself
import torch

model, state = torch.nn.Linear(3, 3), torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
state = state.detach()
scores = model(torch.randn(2, 3) + state)
loss = scores.argmax(1).float().mean()
loss.backward()
