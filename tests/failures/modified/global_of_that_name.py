# code: BS202
# variable: y
# cause: y += 1
# fix: Write y = y + 1
import torch

y = torch.ones(3)


def forward(x):
    y = x.sigmoid()
    y += 1
    return y.sum()


loss = forward(torch.randn(3, requires_grad=True))
loss.backward()
