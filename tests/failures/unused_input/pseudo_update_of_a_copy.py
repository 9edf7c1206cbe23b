# code: BS204
# variable: pseudo_net
# cause: pseudo_loss_vector = F.binary_cross_entropy_with_logits(net(x), y, reduction="none")
# fix: F.binary_cross_entropy_with_logits(pseudo_net(x)
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp():
    return nn.Sequential(nn.Linear(2, 40), nn.ReLU(), nn.Linear(40, 1))


torch.manual_seed(3)
net = mlp()
weigher = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 1), nn.Sigmoid())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
meta_opt = torch.optim.Adam(weigher.parameters(), lr=1e-3)

for it in range(20):
    x, y = torch.randn(32, 2), torch.randint(0, 2, (32, 1)).float()
    pseudo_net = copy.deepcopy(net)
    pseudo_loss_vector = F.binary_cross_entropy_with_logits(net(x), y, reduction="none")
    pseudo_weight = weigher(pseudo_loss_vector.detach())
    pseudo_loss = (pseudo_weight * pseudo_loss_vector).mean()
    pseudo_grads = torch.autograd.grad(pseudo_loss, pseudo_net.parameters(), create_graph=True)
    adapted = {n: p - 0.1 * g for (n, p), g in zip(pseudo_net.named_parameters(), pseudo_grads)}
    vx, vy = torch.randn(16, 2), torch.randint(0, 2, (16, 1)).float()
    meta_loss = F.binary_cross_entropy_with_logits(torch.func.functional_call(pseudo_net, adapted, (vx,)), vy)
    meta_opt.zero_grad()
    meta_loss.backward()
    meta_opt.step()
