# code: BS224
# variable: self.amp.unscale_(self.opt)
# cause: self.amp.update()
# fix: out of and below the condition on line 28
import torch
from torch import nn


def trainable(module):
    return [p for p in module.parameters() if p.requires_grad]


class Trainer:
    def __init__(self, net, limit):
        self.net, self.limit = net, limit
        self.opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
        self.amp = torch.amp.GradScaler("cpu", init_scale=64.0)

    def fit(self, batches):
        made = 0
        for x, y in batches:
            self.opt.zero_grad()
            loss = nn.functional.mse_loss(self.net(x), y)
            self.amp.scale(loss).backward()
            self.amp.unscale_(self.opt)
            norm = nn.utils.clip_grad_norm_(trainable(self.net), 1.0)
            healthy = bool(norm < self.limit)
            if healthy:
                self.amp.step(self.opt)
                self.amp.update()
                made += 1
            print(round(loss.item(), 3), made)


torch.manual_seed(0)
data = [(torch.randn(16, 4) * (50 if k == 2 else 1), torch.randn(16, 1)) for k in range(6)]
Trainer(nn.Linear(4, 1), 20.0).fit(data)
