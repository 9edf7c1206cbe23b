# code: BS201
# variable: criterion.previous
# cause: self.previous = out
# fix: criterion.previous = criterion.previous.detach()
import torch


class Loss:
    previous = None

    def __call__(self, out):
        smooth = 0 if self.previous is None else (out - self.previous).pow(2).mean()
        self.previous = out
        return out.pow(2).mean() + smooth


m, criterion = torch.nn.Linear(3, 1), Loss()
for x in torch.randn(3, 4, 3):
    loss = criterion(torch.tanh(m(x)))
    loss.backward()
