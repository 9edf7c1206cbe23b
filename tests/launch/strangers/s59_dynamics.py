"""Learning a dynamics model for planning: predict the change of the state."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def mlp(sizes, activation=nn.ReLU):
    layers = []
    for d_in, d_out in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(d_in, d_out), activation()]
    return nn.Sequential(*layers)


class Pendulum:
    dt, g, length = 0.05, 9.8, 1.0

    def step(self, state, torque):
        theta, omega = state[:, 0], state[:, 1]
        omega = omega + self.dt * (-self.g / self.length * torch.sin(theta) + torque[:, 0])
        return torch.stack([theta + self.dt * omega, omega], dim=1)

    def rollouts(self, n, horizon, seed):
        g = torch.Generator().manual_seed(seed)
        state = torch.stack([6.28 * torch.rand(n, generator=g) - 3.14,
                             4 * torch.randn(n, generator=g)], 1)
        inputs, deltas = [], []
        for _ in range(horizon):
            torque = 4 * torch.rand(n, 1, generator=g) - 2
            nxt = self.step(state, torque)
            inputs.append(torch.cat([state, torque], 1))
            deltas.append(nxt - state)
            state = nxt
        return torch.cat(inputs), torch.cat(deltas)


class Normalizer:
    def __init__(self, x):
        self.mean, self.std = x.mean(0), x.std(0)

    def __call__(self, x):
        return (x - self.mean) / self.std

    def inverse(self, z):
        return z * self.std + self.mean


class DynamicsModel(nn.Module):
    def __init__(self, inputs, deltas, hidden=64):
        super().__init__()
        self.norm_in, self.norm_out = Normalizer(inputs), Normalizer(deltas)
        self.net = mlp([inputs.shape[1], hidden, hidden, deltas.shape[1]])

    def loss(self, inputs, deltas):
        prediction = self.net(self.norm_in(inputs))
        return nn.functional.mse_loss(prediction, self.norm_out(deltas))

    @torch.no_grad()
    def predict(self, inputs):
        return self.norm_out.inverse(self.net(self.norm_in(inputs)))


def r2(prediction, target):
    return (1 - (prediction - target).var(0) / target.var(0)).tolist()


def main():
    torch.manual_seed(0)
    env = Pendulum()
    inputs, deltas = env.rollouts(100, 20, seed=0)
    test_in, test_delta = env.rollouts(40, 20, seed=1)
    model = DynamicsModel(inputs, deltas)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(inputs, deltas), batch_size=80, shuffle=True)
    for epoch in range(10):
        total = sum(fit_batch(model, optimizer, xb, yb) for xb, yb in loader)
        scores = r2(model.predict(test_in), test_delta)
        print(f"epoch {epoch} loss {total / len(loader):.3f} "
              f"R2 theta {scores[0]:.3f} R2 omega {scores[1]:.3f}")


def fit_batch(model, optimizer, xb, yb):
    loss = model.loss(xb, yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    main()
