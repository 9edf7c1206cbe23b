# code: BS202
# variable: opt_price
# cause: opt_price.step()
# fix: run lines 16 and 18 again below line 21
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 10))
price, demand = nn.Linear(10, 1), nn.Linear(10, 1)
opt_price = torch.optim.Adam([{"params": body.parameters(), "lr": 1e-3}, {"params": price.parameters()}])
opt_demand = torch.optim.Adam(list(body.parameters()) + list(demand.parameters()))


def step(x, p, d):
    h = body(x)
    price_loss = (price(h).squeeze(1) - p).pow(2).mean()
    demand_loss = (demand(h).squeeze(1) - d).abs().mean()
    opt_price.zero_grad()
    price_loss.backward(retain_graph=True)
    opt_price.step()
    opt_demand.zero_grad()
    demand_loss.backward()
    opt_demand.step()
    return price_loss.item(), demand_loss.item()


for k in range(20):
    x = torch.randn(32, 6)
    print(k, step(x, x.sum(1), x[:, 0]))
