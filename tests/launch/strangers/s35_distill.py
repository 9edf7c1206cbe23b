"""Knowledge distillation of a wide teacher into a small student with few, noisy labels."""
import torch
from torch import nn
import torch.nn.functional as F

config = {
    "dim": 20, "classes": 8, "n_teacher": 3000, "n_student": 900, "label_noise": 0.7,
    "teacher_epochs": 4, "student_epochs": 8, "kd_start": 2, "temperature": 2.0, "alpha": 0.9,
}


def blobs(n, seed, cfg):
    centers = torch.randn(8 * cfg["classes"], cfg["dim"], generator=torch.Generator().manual_seed(7))
    g = torch.Generator().manual_seed(seed)
    which = torch.randint(0, len(centers), (n,), generator=g)
    x = centers[which] + 0.7 * torch.randn(n, cfg["dim"], generator=g)
    return x, which % cfg["classes"]


def corrupt(y, rate, classes, seed=5):
    g = torch.Generator().manual_seed(seed)
    flip = torch.rand(len(y), generator=g) < rate
    noise = torch.randint(0, classes, (len(y),), generator=g)
    return torch.where(flip, noise, y)


def mlp(d, h, c):
    return nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, c))


class DistillationLoss(nn.Module):
    def __init__(self, temperature, alpha):
        super().__init__()
        self.T = temperature
        self.alpha = alpha

    def forward(self, student_logits, teacher_logits, targets, use_kd=True):
        hard = F.cross_entropy(student_logits, targets)
        if not use_kd:
            return hard
        soft_targets = F.softmax(teacher_logits / self.T, dim=1)
        log_probs = F.log_softmax(teacher_logits / self.T, dim=1)
        soft = -(soft_targets * log_probs).sum(dim=1).mean() * self.T ** 2
        return self.alpha * soft + (1 - self.alpha) * hard


def batches(x, y, size=60):
    perm = torch.randperm(len(x))
    for i in range(0, len(x), size):
        yield x[perm[i:i + size]], y[perm[i:i + size]]


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    acc = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return acc


def train_teacher(cfg, test):
    teacher = mlp(cfg["dim"], 128, cfg["classes"])
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    x, y = blobs(cfg["n_teacher"], 1, cfg)
    for _ in range(cfg["teacher_epochs"]):
        for xb, yb in batches(x, y, 100):
            opt.zero_grad()
            F.cross_entropy(teacher(xb), yb).backward()
            opt.step()
    print(f"teacher acc {accuracy(teacher, *test):.3f}")
    return teacher.eval().requires_grad_(False)


def train_student(cfg, teacher, test):
    student = mlp(cfg["dim"], 64, cfg["classes"])
    opt = torch.optim.Adam(student.parameters(), lr=4e-3)
    criterion = DistillationLoss(cfg["temperature"], cfg["alpha"])
    x, y = blobs(cfg["n_student"], 2, cfg)
    y = corrupt(y, cfg["label_noise"], cfg["classes"])
    for epoch in range(cfg["student_epochs"]):
        total = 0.0
        for xb, yb in batches(x, y):
            with torch.no_grad():
                t_logits = teacher(xb)
            s_logits = student(xb)
            loss = criterion(s_logits, t_logits, yb, use_kd=epoch >= cfg["kd_start"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / 15:.3f} student acc {accuracy(student, *test):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    test_set = blobs(1500, 3, config)
    train_student(config, train_teacher(config, test_set), test_set)
