# code: BS201
# variable: state["belief"]
# cause: state["belief"] = filter_net(torch.cat([obs, state["belief"]], dim=-1))
# fix: detach
import torch
from torch import nn

config = {"obs": 3, "belief": 6, "lr": 3e-3, "steps": 4}
filter_net = nn.Sequential(nn.Linear(config["obs"] + config["belief"], config["belief"]), nn.Tanh())
decoder = nn.Linear(config["belief"], config["obs"])
optimizer = torch.optim.Adam([{"params": filter_net.parameters()}, {"params": decoder.parameters()}], lr=config["lr"])
state = {"belief": torch.zeros(2, config["belief"]), "step": 0}


def update(obs):
    state["belief"] = filter_net(torch.cat([obs, state["belief"]], dim=-1))
    state["step"] += 1
    return decoder(state["belief"])


for _ in range(config["steps"]):
    obs = torch.randn(2, config["obs"])
    loss = (update(obs) - obs).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
