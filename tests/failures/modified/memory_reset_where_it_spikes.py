# code: BS202
# variable: memory
# cause: memory[spikes.bool()] = 0.0
# fix: Modify a copy: put memory =
# or: memory[memory > 0.5] = 0.0
# or: memory[:, 0] = 0.0
# or: memory[0] = 0.0
# or: memory[:t] = 0.0
# or: memory[order[t]] = 0.0
# or: memory[3 - t] = 0.0
import torch

cell, memory, order = torch.nn.Linear(4, 4), torch.zeros(4, 4), torch.tensor([2, 0, 1])
loss = 0
for t in range(3):
    memory = torch.sigmoid(cell(memory))
    spikes = (memory > 0.5).float()
    memory[spikes.bool()] = 0.0
    loss = loss + memory.sum()
loss.backward()
