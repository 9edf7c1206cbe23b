# code: BS200
# variable: self.head.weight
# cause: self.head.weight = self.head.weight / self.head.weight.norm(dim=1)[:, None]
# or: self.head.weight = torch.nn.functional.normalize(self.head.weight)
# fix: torch.func.functional_call(self.head, {'weight': weight}, (seen,))
import torch


class Cosines(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Linear(8, 4)
        self.head = torch.nn.Linear(4, 3, bias=False)

    def forward(self, x):
        seen = torch.nn.functional.normalize(self.trunk(x))
        self.head.weight = self.head.weight / self.head.weight.norm(dim=1)[:, None]
        return seen, 10 * self.head(seen)


torch.manual_seed(0)
net = Cosines()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for step in range(3):
    x, y = torch.randn(30, 8), torch.randint(0, 3, (30,))
    seen, scores = net(x)
    loss = torch.nn.functional.cross_entropy(scores, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
