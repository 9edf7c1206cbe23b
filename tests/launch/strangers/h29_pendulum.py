"""Identify the parameters of a damped pendulum from a trajectory by L-BFGS through the integrator."""
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


class Pendulum(nn.Module):
    """Positive constants through exponentials."""

    def __init__(self, gravity, damping):
        super().__init__()
        self.log_g = nn.Parameter(torch.tensor(gravity).log())
        self.log_c = nn.Parameter(torch.tensor(damping).log())

    def rhs(self, state):
        theta, omega = state.unbind(-1)
        return torch.stack([omega, -self.log_g.exp() * theta.sin() - self.log_c.exp() * omega], -1)

    def forward(self, state, dt, steps):
        path = [state]
        for _ in range(steps):
            k1 = self.rhs(state)
            k2 = self.rhs(state + 0.5 * dt * k1)
            state = state + dt * k2
            path.append(state)
        return torch.stack(path)


def observe(dt, steps):
    truth = Pendulum(9.81, 0.25)
    start = torch.tensor([[0.6, 0.0], [1.0, -0.5], [0.2, 1.0]])
    with torch.no_grad():
        path = truth(start, dt, steps)
    return start, path + 0.005 * torch.randn(path.shape)


def identify(start, path, dt, rounds=8):
    model = Pendulum(7.0, 0.6)
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6, line_search_fn="strong_wolfe")
    evaluations = 0

    def closure():
        nonlocal evaluations
        evaluations += 1
        opt.zero_grad()
        loss = (model(start, dt, len(path) - 1) - path).square().mean()
        loss.backward()
        return loss

    for r in range(rounds):
        loss = opt.step(closure)
        print(f"round {r} loss {loss.item():.2e} g {model.log_g.exp().item():.4f} c {model.log_c.exp().item():.4f} "
              f"evaluations {evaluations}")
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    dt, steps = 0.05, 40
    identify(*observe(dt, steps), dt)
