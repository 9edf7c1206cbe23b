# code: BS201
# variable: log_probs
# cause: log_probs[t] = logits.log_softmax(0)[0]
# fix: put `log_probs = log_probs.detach(); values = values.detach()` above line 14
import torch
from torch import nn


def train(actor, critic, log_probs, values):
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for episode in range(3):
        # one state after the other
        returns = torch.zeros(4)
        for t in range(4):
            state = torch.randn(3)
            logits = actor(state)
            log_probs[t] = logits.log_softmax(0)[0]
            values[t] = critic(state).squeeze()
            returns[t] = 1.0
        loss = (values - returns).pow(2).mean() - log_probs.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.zeros(4), torch.zeros(4))
