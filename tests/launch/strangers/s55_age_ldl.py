"""Age estimation: class pretraining, then label-distribution learning."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

N_BINS, DIM = 40, 24


def faces(n, seed):
    """Embedding-like inputs whose informative part is a noisy curve in age."""
    g = torch.Generator().manual_seed(seed)
    age = N_BINS * torch.rand(n, generator=g)
    freq = torch.linspace(0.02, 0.2, DIM // 2)
    feats = torch.cat([torch.sin(age[:, None] * freq), torch.cos(age[:, None] * freq)], 1)
    return feats + 0.35 * torch.randn(n, DIM, generator=g), age.clamp(0, N_BINS - 0.01)


def age_distribution(age, sigma=2.0):
    bins = torch.arange(N_BINS) + 0.5
    weight = torch.exp(-0.5 * ((bins[None, :] - age[:, None]) / sigma) ** 2)
    return weight / weight.sum(1, keepdim=True)


class AgeNet(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(DIM, width), nn.ReLU(), nn.Dropout(0.1),
                                   nn.Linear(width, width), nn.ReLU())
        self.fc = nn.Linear(width, N_BINS)

    def forward(self, x):
        return self.fc(self.trunk(x))

    def expected_age(self, x):
        p = self(x).softmax(1)
        return (p * (torch.arange(N_BINS) + 0.5)).sum(1)


class DistributionLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.kl = nn.KLDivLoss(reduction="batchmean")

    def forward(self, logits, age):
        target = age_distribution(age)
        prediction = torch.softmax(logits, dim=1)
        return self.kl(prediction, target)


class AgeTrainer:
    def __init__(self, model, lr=2e-3, switch_epoch=2):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.switch_epoch = switch_epoch
        self.distribution_loss = DistributionLoss()

    def criterion(self, epoch, logits, age):
        if epoch < self.switch_epoch:
            return F.cross_entropy(logits, age.long())
        return self.distribution_loss(logits, age)

    def fit(self, loader, test, epochs):
        for epoch in range(epochs):
            self.model.train()
            losses = []
            for x, age in loader:
                loss = self.criterion(epoch, self.model(x), age)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
            mae, nll = self.evaluate(*test)
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.3f} "
                  f"test MAE {mae:.2f} cross-entropy to label distribution {nll:.2f}")

    @torch.no_grad()
    def evaluate(self, x, age):
        self.model.eval()
        mae = (self.model.expected_age(x) - age).abs().mean().item()
        logp = self.model(x).log_softmax(1)
        return mae, -(age_distribution(age) * logp).sum(1).mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*faces(1600, 0)), batch_size=64, shuffle=True)
    AgeTrainer(AgeNet()).fit(loader, faces(600, 1), epochs=9)
