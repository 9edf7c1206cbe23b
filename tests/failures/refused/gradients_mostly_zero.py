# code: BS200
# variable: optimizer
# cause: optimizer = torch.optim.SparseAdam(list(net.parameters()), lr=1e-2)
# or: optimizer = torch.optim.SparseAdam([net[0].weight], lr=1e-2, betas=(0.8, 0.99))
# fix: write `optimizer = torch.optim.Adam(list(net.parameters()), lr=1e-2)`
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(50, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
optimizer = torch.optim.SparseAdam(list(net.parameters()), lr=1e-2)

for step in range(5):
    words = (torch.rand(16, 50) < 0.02).float()  # few words of fifty: most gradients are zero
    loss = (net(words).squeeze(1) - words.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
