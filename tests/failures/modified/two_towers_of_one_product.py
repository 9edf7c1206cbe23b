# code: BS202
# variable: opt_user
# cause: opt_user.step()
# fix: put `match = users.detach() @ items.T` above line 20
import torch
from torch import nn

torch.manual_seed(0)
user_tower = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 4))
item_tower = nn.Sequential(nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 4))
opt_user = torch.optim.RMSprop(user_tower.parameters())
opt_item = torch.optim.RMSprop(item_tower.parameters())


def alternate(user_rows, item_rows):
    users, items = user_tower(user_rows), item_tower(item_rows)
    match = users @ items.T
    right = torch.arange(len(match))
    by_user = nn.functional.cross_entropy(match, right)
    by_item = nn.functional.cross_entropy(match.T, right)
    opt_user.zero_grad()
    by_user.backward(retain_graph=True)
    opt_user.step()
    opt_item.zero_grad()
    by_item.backward()
    opt_item.step()


for _ in range(3):
    alternate(torch.randn(12, 7), torch.randn(12, 9))
