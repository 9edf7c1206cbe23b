# code: BS201
# variable: d_loss.backward
# cause: d_loss = d(fake).mean()
# fix: Compute d_loss from fake.detach()
import torch
g, d = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
d_optimizer = torch.optim.SGD(d.parameters(), lr=0.1)
fake = torch.tanh(g(torch.randn(4, 2)))
d_loss = d(fake).mean()
d_optimizer.zero_grad(); d_loss.backward(); d_optimizer.step()
g_loss = -d(fake).mean(); g_loss.backward()
