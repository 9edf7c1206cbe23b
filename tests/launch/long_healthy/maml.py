"""MAML on sine waves: functional weights; first order at first, then second order; learned inner learning rates."""

import argparse
import hashlib
import math

import torch
import torch.nn.functional as F
from torch import nn


class Tasks:
    """Sine waves: an amplitude and a phase each, a few points to adapt to and others to judge by."""

    def __init__(self, shots, seed):
        self.shots = shots
        self.generator = torch.Generator().manual_seed(seed)

    def _uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(*shape, generator=self.generator)

    def sample(self, count):
        for _ in range(count):
            amplitude, phase = self._uniform(0.5, 3.0, 1), self._uniform(0, math.pi, 1)
            x = self._uniform(-5, 5, 2 * self.shots, 1)
            y = amplitude * torch.sin(x + phase)
            yield (x[: self.shots], y[: self.shots]), (x[self.shots :], y[self.shots :])


class Net(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.fc1 = nn.Linear(1, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(F.relu(self.fc2(F.relu(self.fc1(x)))))


class MAML(nn.Module):
    def __init__(self, net, lr_inner, inner_steps):
        super().__init__()
        self.net = net
        self.inner_steps = inner_steps
        names = [name for name, _ in net.named_parameters()]
        self.log_lr = nn.ParameterDict(
            {name.replace(".", "_"): nn.Parameter(torch.tensor(math.log(lr_inner))) for name in names}
        )

    def adapt(self, support, create_graph, steps=None):
        x, y = support
        fast = dict(self.net.named_parameters())
        for _ in range(steps or self.inner_steps):
            loss = F.mse_loss(torch.func.functional_call(self.net, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=create_graph)
            fast = {
                name: weight - self.log_lr[name.replace(".", "_")].exp() * grad
                for (name, weight), grad in zip(fast.items(), grads, strict=True)
            }
        return fast

    def forward(self, support, query, create_graph=True, steps=None):
        fast = self.adapt(support, create_graph, steps)
        x, y = query
        return F.mse_loss(torch.func.functional_call(self.net, fast, (x,)), y)


def evaluate(maml, shots, count=20):
    """The error before and after five steps on tasks that are the same each time."""
    before = after = 0.0
    maml.eval()
    for support, query in Tasks(shots, seed=99).sample(count):
        with torch.no_grad():
            before += F.mse_loss(maml.net(query[0]), query[1]).item()
        after += maml(support, query, create_graph=False, steps=5).item()
    maml.train()
    return before / count, after / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--shots", type=int, default=10)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--lr-inner", type=float, default=0.01)
    parser.add_argument("--first-order", type=int, default=600, help="iterations without second derivatives")
    args = parser.parse_args()

    torch.manual_seed(0)
    tasks = Tasks(args.shots, seed=0)
    maml = MAML(Net(), args.lr_inner, inner_steps=1)
    meta_optimizer = torch.optim.Adam(maml.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(meta_optimizer, args.iterations, eta_min=1e-4)

    running = 0.0
    for iteration in range(1, args.iterations + 1):
        second_order = iteration > args.first_order
        meta_optimizer.zero_grad()
        meta_loss = 0.0
        for support, query in tasks.sample(args.tasks):
            meta_loss = meta_loss + maml(support, query, create_graph=second_order)
        meta_loss = meta_loss / args.tasks
        meta_loss.backward()
        nn.utils.clip_grad_norm_(maml.parameters(), 10.0)
        meta_optimizer.step()
        scheduler.step()
        running += meta_loss.item()
        if iteration % 200 == 0:
            before, after = evaluate(maml, args.shots)
            print(f"{iteration:5d} query {running / 200:.4f} before {before:.4f} after {after:.4f}")
            running = 0.0

    weights = [weight.detach().numpy().tobytes() for weight in maml.parameters()]
    print(hashlib.sha256(b"".join(weights)).hexdigest())


if __name__ == "__main__":
    main()
