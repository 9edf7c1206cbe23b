# code: BS226
# variable: path
# cause: path = torch.zeros(5)
# fix: path = state['position'].new_zeros(5)
import torch


def rollout(state):
    path = torch.zeros(5)
    position = state["position"]
    for step in range(5):
        position = position + state["velocity"]
        path[step] = position
    return path


states = {"position": torch.zeros(3), "velocity": torch.arange(3.0)}
print(torch.vmap(rollout)(states))
