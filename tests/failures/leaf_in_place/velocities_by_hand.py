# code: BS205
# variable: w | weights[0]
# cause: w -= self.rate * self.velocities[k]
# fix: torch.no_grad()
import torch

weights = [torch.randn(3, 4, requires_grad=True), torch.zeros(4, requires_grad=True)]


class HeavyBall:
    def __init__(self, weights, rate=0.1):
        self.weights, self.rate = weights, rate
        self.velocities = [torch.zeros_like(w) for w in weights]

    def update(self):
        for k, w in enumerate(self.weights):
            self.velocities[k] = 0.9 * self.velocities[k] + w.grad
            w -= self.rate * self.velocities[k]


ball = HeavyBall(weights)
for _ in range(5):
    x = torch.randn(8, 3)
    (x @ weights[0] + weights[1]).square().mean().backward()
    ball.update()
