# code: BS204
# variable: noise
# cause: return model.head(emb)
# fix: return model.head(e)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.enc = nn.GRU(16, 16, batch_first=True)
        self.out = nn.Linear(16, 2)

    def head(self, e):
        h, _ = self.enc(e)
        return self.out(h.mean(1))


def kl(p, q):
    return F.kl_div(F.log_softmax(p, 1), F.softmax(q, 1), reduction="batchmean")


class SMART:
    def __init__(self, eval_fn, steps=1, var=1e-3, lr=1e-3):
        self.eval_fn, self.steps, self.var, self.lr = eval_fn, steps, var, lr

    def __call__(self, emb, state):
        noise = torch.randn_like(emb, requires_grad=True) * self.var
        for _ in range(self.steps):
            perturbed = self.eval_fn(emb + noise)
            loss = kl(perturbed, state.detach())
            (g,) = torch.autograd.grad(loss, noise)
            noise = (noise + self.lr * g / (g.norm() + 1e-6)).detach().requires_grad_()
        return kl(self.eval_fn(emb + noise), state)


def train():
    torch.manual_seed(0)
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(5):
        ids, y = torch.randint(0, 50, (8, 7)), torch.randint(0, 2, (8,))
        emb = model.emb(ids)
        state = model.head(emb)

        def evaluate(e):
            return model.head(emb)

        loss = F.cross_entropy(state, y) + 0.1 * SMART(evaluate)(emb, state)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


train()
