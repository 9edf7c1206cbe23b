# code: BS200
# variable: fit
# cause: torch.autograd.backward([fit, smooth], [torch.tensor([1.0]), torch.tensor([0.1])])
# or: torch.autograd.backward((fit, smooth), (torch.ones(1), 0.1 * torch.ones(1)))
# or: terms, shares = [fit, smooth], [torch.tensor([1.0]), torch.tensor([0.1])]\ntorch.autograd.backward(terms, shares)
# fix: [torch.tensor([1.0]).reshape(fit.shape), torch.tensor([0.1]).reshape(smooth.shape)]
import torch

torch.manual_seed(0)
curve = torch.zeros(20, requires_grad=True)
points = torch.linspace(0, 3, 20).sin() + 0.1 * torch.randn(20)
optimizer = torch.optim.SGD([curve], lr=0.5)

for step in range(5):
    fit, smooth = (curve - points).square().mean(), curve.diff().square().mean()
    optimizer.zero_grad()
    torch.autograd.backward([fit, smooth], [torch.tensor([1.0]), torch.tensor([0.1])])
    optimizer.step()
    print(step, fit.item(), smooth.item())
