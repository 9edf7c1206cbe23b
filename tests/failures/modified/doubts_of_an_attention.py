# code: BS202
# variable: share
# cause: share[hidden] = 0.5 * share[hidden]
# fix: Modify a copy: put `share = share.clone()` above line 23
import torch
from torch import nn

torch.manual_seed(0)


class Reading(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.ask = nn.Linear(width, width)
        self.answer = nn.Linear(width, 1)

    def forward(self, words, hidden):
        scores = self.ask(words) @ words.transpose(1, 2)
        share = torch.softmax(scores, dim=-1)
        entropy = -(share.detach() * share.detach().clamp_min(1e-9).log()).sum(-1).mean()
        if self.training:
            # half of the attention for what the reader does not see
            share[hidden] = 0.5 * share[hidden]
        return self.answer(share @ words).squeeze(-1), entropy


model = Reading()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    words = torch.randn(4, 6, 8)
    hidden = torch.rand(4, 6, 6) > 0.7
    scores, entropy = model(words, hidden)
    loss = (scores - words.mean(-1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), entropy.item())
