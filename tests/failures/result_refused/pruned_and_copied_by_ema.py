# code: BS219
# variable: model.first.weight
# cause: ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
# fix: hasattr(m, 'weight_orig')
import torch
from torch import nn
from torch.nn.utils import prune
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Deep(nn.Module):
    def __init__(self, width=10, depth=5):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.rest = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x):
        x = torch.tanh(self.first(x))
        for layer in self.rest:
            x = x + torch.tanh(layer(x))
        return x.mean(1)


torch.manual_seed(0)
model = Deep()
every = [(m, "weight") for m in model.modules() if isinstance(m, nn.Linear)]
prune.global_unstructured(every, pruning_method=prune.RandomUnstructured, amount=0.2)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    sgd.zero_grad()
    model(torch.randn(8, 3)).square().mean().backward()
    sgd.step()
    ema.update_parameters(model)
