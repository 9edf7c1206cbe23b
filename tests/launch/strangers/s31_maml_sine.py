"""Few-shot sine regression with gradient-based meta-learning."""
import math

import torch
import torch.nn.functional as F

CFG = dict(meta_iters=150, tasks_per_iter=4, k_shot=10, inner_lr=0.02, inner_steps=3,
           meta_lr=2e-3, hidden=40, seed=3)


class SineTasks:
    """Samples y = A sin(x + phase) with random amplitude and phase."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def sample(self, k):
        amp = 0.5 + 3.0 * torch.rand(1, generator=self.g)
        phase = math.pi * torch.rand(1, generator=self.g)
        x = 10 * torch.rand(2 * k, 1, generator=self.g) - 5
        y = amp * torch.sin(x + phase)
        return (x[:k], y[:k]), (x[k:], y[k:])


class Regressor(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.l1 = torch.nn.Linear(1, hidden)
        self.l2 = torch.nn.Linear(hidden, hidden)
        self.l3 = torch.nn.Linear(hidden, 1)

    def weights(self):
        return list(self.parameters())

    def forward(self, x, w=None):
        w = self.weights() if w is None else w
        x = torch.tanh(F.linear(x, w[0], w[1]))
        x = torch.tanh(F.linear(x, w[2], w[3]))
        return F.linear(x, w[4], w[5])


class MetaLearner:
    def __init__(self, net, cfg):
        self.net = net
        self.cfg = cfg
        self.optimizer = torch.optim.Adam(net.parameters(), lr=cfg["meta_lr"])

    def adapt(self, x, y):
        """Run the inner loop on a support set, return task-specific weights."""
        fast = [w.clone().detach().requires_grad_(True) for w in self.net.weights()]
        for _ in range(self.cfg["inner_steps"]):
            loss = F.mse_loss(self.net(x, fast), y)
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [w - self.cfg["inner_lr"] * g for w, g in zip(fast, grads)]
        return fast

    def meta_step(self, tasks):
        meta_loss = 0.0
        for support, query in tasks:
            fast = self.adapt(*support)
            meta_loss = meta_loss + F.mse_loss(self.net(query[0], fast), query[1])
        meta_loss = meta_loss / len(tasks)
        self.optimizer.zero_grad()
        meta_loss.backward()
        self.optimizer.step()
        return meta_loss.item()

    def evaluate(self, sampler, n=20):
        total = 0.0
        for _ in range(n):
            support, query = sampler.sample(self.cfg["k_shot"])
            fast = self.adapt(*support)
            with torch.no_grad():
                total += F.mse_loss(self.net(query[0], fast), query[1]).item()
        return total / n


def main():
    torch.manual_seed(CFG["seed"])
    train_tasks, test_tasks = SineTasks(1), SineTasks(99)
    learner = MetaLearner(Regressor(CFG["hidden"]), CFG)
    running = 0.0
    for it in range(1, CFG["meta_iters"] + 1):
        batch = [train_tasks.sample(CFG["k_shot"]) for _ in range(CFG["tasks_per_iter"])]
        running += learner.meta_step(batch)
        if it % 30 == 0:
            print(f"iter {it:4d}  meta loss {running / 30:.3f}")
            running = 0.0
    print(f"post-adaptation test mse: {learner.evaluate(test_tasks):.3f}")


if __name__ == "__main__":
    main()
