# code: BS200
# variable: slope
# cause: slope.zero_grad()
# fix: `slope.grad = None` on line 19 and `shift.grad = None` on line 20
# fix: would set slope itself to 0
import torch

x = torch.linspace(-1, 1, 30)
y = 3 * x - 0.5
slope = torch.zeros(1, requires_grad=True)
shift = torch.zeros(1, requires_grad=True)
for _ in range(20):
    loss = (slope * x + shift - y).square().mean()
    loss.backward()
    with torch.no_grad():
        for each in (slope, shift):
            each -= 0.3 * each.grad

    slope.zero_grad()
    shift.zero_grad()
print(slope, shift)
