# code: BS200
# variable: of_each
# cause: of_each = [torch.ones(1) for _ in losses]
# fix: of_each = [torch.ones_like(each) for each in losses]
import torch

torch.manual_seed(0)
trunk = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh())
heads = torch.nn.ModuleList(torch.nn.Linear(16, 8) for _ in range(3))
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=1e-2)

for step in range(3):
    faces, angles = torch.randn(12, 6), torch.randint(0, 8, (3, 12))
    seen = trunk(faces)
    losses = [torch.nn.functional.cross_entropy(head(seen), angle) for head, angle in zip(heads, angles)]
    of_each = [torch.ones(1) for _ in losses]
    optimizer.zero_grad()
    torch.autograd.backward(losses, of_each)
    optimizer.step()
    print(step, sum(losses).item())
