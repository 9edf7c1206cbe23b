# code: BS203
# variable: loss
# cause: h = checkpoint(layer, h, use_reentrant=True)
# fix: use_reentrant=False
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class AdapterBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.frozen = nn.Linear(d, d)
        self.adapter = nn.Sequential(nn.Linear(d, 4), nn.GELU(), nn.Linear(4, d))
        self.frozen.requires_grad_(False)

    def forward(self, h):
        return h + self.frozen(h).tanh() + self.adapter(h)


class Backbone(nn.Module):
    def __init__(self, vocab, d, depth):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wte.requires_grad_(False)
        self.layers = nn.ModuleList(AdapterBlock(d) for _ in range(depth))
        self.head = nn.Linear(d, vocab)
        self.head.requires_grad_(False)
        self.gradient_checkpointing = False

    def forward(self, ids):
        h = self.wte(ids)
        for layer in self.layers:
            if self.gradient_checkpointing and self.training:
                h = checkpoint(layer, h, use_reentrant=True)
            else:
                h = layer(h)
        return self.head(h)


def fine_tune(model, steps):
    trainable = [p for p in model.parameters() if p.requires_grad]
    print("trainable:", sum(p.numel() for p in trainable))
    opt = torch.optim.AdamW(trainable, lr=5e-4)
    model.train()
    for s in range(steps):
        ids = torch.randint(0, 40, (2, 9))
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 40), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(s, loss.item())


torch.manual_seed(0)
net = Backbone(40, 16, 3)
net.gradient_checkpointing = True
fine_tune(net, 3)
