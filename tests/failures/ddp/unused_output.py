# code: BS211
# variable: value
# cause: outputs = model(batch["obs"])
# fix: value
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 16)
        self.policy = nn.Linear(16, 3)
        self.value = nn.Linear(16, 1)

    def forward(self, obs):
        h = torch.tanh(self.trunk(obs))
        return {"logits": self.policy(h), "value": self.value(h).squeeze(-1)}


def policy_loss(outputs, batch):
    log_prob = torch.log_softmax(outputs["logits"], dim=-1)
    return -(log_prob.gather(1, batch["action"][:, None]).squeeze(1) * batch["advantage"]).mean()


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(ActorCritic())
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        batch = {"obs": torch.randn(5, 4), "action": torch.randint(0, 3, (5,)), "advantage": torch.randn(5)}
        outputs = model(batch["obs"])
        loss = policy_loss(outputs, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
