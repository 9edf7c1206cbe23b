# code: BS224
# variable: 4 parameters of self.optimizer
# cause: self.teller.to(self.config["dtype"])
# fix: p.data.float() if p.requires_grad
import torch
from torch import nn


class Teller(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 12), nn.Tanh()).requires_grad_(False)
        self.mood, self.topic = nn.Linear(12, 2), nn.Linear(12, 4)

    def forward(self, x):
        features = self.trunk(x)
        return self.mood(features), self.topic(features)


class Finetuning:
    def __init__(self, teller, config):
        self.teller, self.config = teller, config
        self.scaler = torch.amp.GradScaler("cpu")
        self.optimizer = torch.optim.AdamW([*teller.mood.parameters(), *teller.topic.parameters()])

    def run(self, batches):
        self.teller.to(self.config["dtype"])
        for x, mood, topic in batches:
            with torch.autocast("cpu", dtype=self.config["dtype"]):
                says = self.teller(x)
                loss = sum(nn.functional.cross_entropy(a.float(), b) for a, b in zip(says, (mood, topic)))
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


torch.manual_seed(0)
batches = [(torch.randn(8, 6), torch.randint(2, (8,)), torch.randint(4, (8,))) for _ in range(3)]
Finetuning(Teller(), {"dtype": torch.float16}).run(batches)
