# code: BS203
# variable: loss
# cause: loss.backward()
# fix: Look between the model's output and the loss for .detach()
# unsure: what eval() runs has no text
import torch


def count():
    return eval("torch.tensor(3)")


loss = count()
loss.backward()
