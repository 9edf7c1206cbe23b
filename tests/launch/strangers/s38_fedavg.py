"""Federated averaging over clients with non-iid data."""
import copy
import random

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

ARGS = dict(num_clients=5, rounds=6, local_epochs=2, batch_size=32, lr=0.05, momentum=0.5,
            dim=16, classes=6, samples_per_client=130)


def set_seed(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def make_client_data(rng, centers, favourite, n):
    probs = np.full(len(centers), 0.4 / (len(centers) - 2))
    probs[favourite] = 0.3
    y = rng.choice(len(centers), size=n, p=probs / probs.sum())
    x = centers[y] + rng.normal(scale=1.0, size=(n, centers.shape[1]))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def build_model():
    return nn.Sequential(nn.Linear(ARGS["dim"], 32), nn.ReLU(), nn.Linear(32, ARGS["classes"]))


class Client:
    def __init__(self, cid, data, model):
        self.cid = cid
        self.loader = DataLoader(TensorDataset(*data), batch_size=ARGS["batch_size"], shuffle=True)
        self.n = len(data[1])
        self.model = copy.deepcopy(model)

    def fit(self, global_state):
        self.model.load_state_dict(global_state)
        net = copy.deepcopy(self.model)
        net.train()
        criterion = nn.CrossEntropyLoss()
        optimizer = optim.SGD(net.parameters(), lr=ARGS["lr"], momentum=ARGS["momentum"])
        losses = []
        for _ in range(ARGS["local_epochs"]):
            for xb, yb in self.loader:
                optimizer.zero_grad()
                loss = criterion(net(xb), yb)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return self.model.state_dict(), self.n, losses


class Server:
    def __init__(self, model, clients, test):
        self.model = model
        self.clients = clients
        self.test = test

    def aggregate(self, results):
        total = sum(n for _, n, _ in results)
        averaged = {}
        for key in results[0][0]:
            averaged[key] = sum(state[key] * (n / total) for state, n, _ in results)
        self.model.load_state_dict(averaged)

    def run(self):
        for rnd in range(ARGS["rounds"]):
            state = self.model.state_dict()
            results = [client.fit(state) for client in self.clients]
            self.aggregate(results)
            first = np.mean([r[2][0] for r in results])
            last = np.mean([r[2][-1] for r in results])
            print(f"round {rnd}: local loss {first:.3f} -> {last:.3f}, "
                  f"global test acc {self.evaluate():.3f}")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        x, y = self.test
        return (self.model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    set_seed(4)
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=1.2, size=(ARGS["classes"], ARGS["dim"]))
    global_model = build_model()
    clients = [Client(i, make_client_data(rng, centers, i, ARGS["samples_per_client"]), global_model)
               for i in range(ARGS["num_clients"])]
    test = make_client_data(rng, centers, [0, 1, 2], 1000)
    Server(global_model, clients, test).run()
