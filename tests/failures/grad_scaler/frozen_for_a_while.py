# code: BS224
# variable: scaler.step
# cause: body.requires_grad_(epoch > 0)
# fix: call body.requires_grad_(True) before the forward pass
# unsure: whether it should be trained in this epoch is its author's to say
import torch

body, head = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
of_body, of_head = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (body, head))
scaler = torch.amp.GradScaler("cpu")
for epoch in range(2):
    body.requires_grad_(epoch > 0)
    loss = head(body(torch.randn(5, 3))).square().mean()
    scaler.scale(loss).backward()
    scaler.step(of_body)
    scaler.step(of_head)
    scaler.update()
