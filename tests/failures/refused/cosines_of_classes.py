# code: BS200
# variable: self.classes.weight
# cause: self.classes.weight = self.classes.weight / self.classes.weight.norm(dim=1, keepdim=True)
# or: self.classes.weight = torch.nn.functional.normalize(self.classes.weight)
# fix: torch.func.functional_call(self.classes, {'weight': weight}, (seen,))
import torch


class Cosines(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Linear(8, 4)
        self.classes = torch.nn.Linear(4, 3, bias=False)

    def forward(self, x):
        seen = torch.nn.functional.normalize(self.trunk(x))
        self.classes.weight = self.classes.weight / self.classes.weight.norm(dim=1, keepdim=True)
        return seen, 10 * self.classes(seen)


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
