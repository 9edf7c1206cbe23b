# code: BS200
# variable: model.words.weight
# cause: optimizer = torch.optim.AdamW(groups, lr=1e-2)
# unsure: the lists of another function are gone when the optimizer refuses its groups
# fix: others = [p for p in others if all(p is not each for each in projections)]
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(20, 8)
        self.mix = torch.nn.Linear(8, 8)
        self.out = torch.nn.Linear(8, 20, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids):
        return self.out(self.mix(self.words(ids)).tanh())


def grouped(model):
    projections, names = [], []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            projections.append(module.weight)
            names.append(f"{name}.weight")
    others = [p for name, p in model.named_parameters() if name not in names]
    return [
        {"params": others, "weight_decay": 0.0},
        {"params": projections, "weight_decay": 0.1},
    ]


torch.manual_seed(0)
model = Model()
groups = grouped(model)
optimizer = torch.optim.AdamW(groups, lr=1e-2)

for step in range(3):
    ids = torch.randint(0, 20, (4, 9))
    loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
