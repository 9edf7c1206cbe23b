# code: BS224
# variable: net
# cause: return torch.tensor(total / len(outs)).requires_grad_()
# fix: return (total / len(outs)).requires_grad_()
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")


def batch_loss(outs, target):
    total = 0.0
    for out in outs:
        total += (out - target).pow(2).mean().item()
    return torch.tensor(total / len(outs)).requires_grad_()


for step in range(3):
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    loss = batch_loss([net(x), net(2 * x)], y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    print(step, loss.item())
