# code: BS204
# variable: fast
# cause: weight = new
# line: 21
# fix: torch.func.functional_call(model, dict(zip(dict(model.named_parameters()), fast)), (support,))
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
meta = [p.detach().clone().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.Adam(meta)

for episode in range(2):
    support, query = torch.randn(4, 3), torch.randn(4, 3)
    classes = torch.randint(0, 2, (4,))
    fast = [p.clone() for p in meta]
    for k in range(2):
        for new, weight in zip(fast, model.parameters()):
            weight = new
        out = model(support)
        loss = F.cross_entropy(out, classes)
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [p - 0.1 * g for p, g in zip(fast, grads)]
    for new, weight in zip(fast, model.parameters()):
        weight = new
    outer = F.cross_entropy(model(query), classes)
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
