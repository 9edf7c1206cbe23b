# code: BS205
# variable: position
# cause: position += 0.1 * torch.sin(wind)
# fix: new_position = position
import torch

torch.manual_seed(0)
position = torch.zeros(2, requires_grad=True)
winds = torch.randn(4, 2)
for wind in winds:
    position += 0.1 * torch.sin(wind)
loss = (position - 1).pow(2).sum()
loss.backward()
print(position.grad)
