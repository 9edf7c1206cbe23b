# code: BS202
# variable: embeddings
# cause: [row.div_(row.norm()) for row in embeddings.detach()]
# fix: embeddings
import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
head = nn.Linear(8, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)

for _ in range(2):
    x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
    embeddings = encoder(x)
    logits = head(embeddings)
    loss = nn.functional.cross_entropy(logits, y)
    [row.div_(row.norm()) for row in embeddings.detach()]
    similarity = embeddings.detach() @ embeddings.detach().T
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
