"""Distil a large digit network into a small one (Hinton et al.)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Data:
    def __init__(self, seed=0, labelled=60):
        d = load_digits()
        g = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(d.target), generator=g)
        x = torch.tensor(d.data, dtype=torch.float32)[order] / 16
        y = torch.tensor(d.target)[order]
        self.x_train, self.y_train = x[:1200], y[:1200]
        self.x_test, self.y_test = x[1200:], y[1200:]
        self.labelled = labelled      # the student sees few labels, the rest comes from the teacher


class DistillLoss(nn.Module):
    def __init__(self, temperature=3.0, alpha=0.9):
        super().__init__()
        self.temperature, self.alpha = temperature, alpha
        self.kl = nn.KLDivLoss(reduction="batchmean")

    def soften(self, logits):
        return F.softmax(logits / self.temperature, dim=-1)

    def forward(self, student_logits, teacher_logits, labels, has_label):
        soft = self.kl(self.soften(student_logits), self.soften(teacher_logits)) * self.temperature ** 2
        hard = F.cross_entropy(student_logits, labels, reduction="none")
        hard = (hard * has_label).sum() / has_label.sum().clamp(min=1)
        return self.alpha * soft + (1 - self.alpha) * hard, soft.item(), hard.item()


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(-1) == y).float().mean().item()


def train_teacher(data, epochs=15):
    teacher = mlp(64, 128, 128, 10)
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for _ in range(epochs):
        for idx in torch.randperm(len(data.x_train)).split(64):
            loss = F.cross_entropy(teacher(data.x_train[idx]), data.y_train[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    print("teacher", accuracy(teacher, data.x_test, data.y_test))
    return teacher.eval().requires_grad_(False)


def distil(teacher, data, epochs=25):
    student = mlp(64, 24, 10)
    criterion = DistillLoss()
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    has_label = (torch.arange(len(data.x_train)) < data.labelled).float()
    for epoch in range(epochs):
        softs, hards = [], []
        for idx in torch.randperm(len(data.x_train)).split(64):
            x = data.x_train[idx]
            with torch.no_grad():
                guide = teacher(x)
            loss, soft, hard = criterion(student(x), guide, data.y_train[idx], has_label[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            softs.append(soft)
            hards.append(hard)
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d} distillation {sum(softs) / len(softs):8.4f} labels {sum(hards) / len(hards):.4f} "
                  f"test {accuracy(student, data.x_test, data.y_test):.3f}")
    return student


if __name__ == "__main__":
    torch.manual_seed(0)
    data = Data()
    distil(train_teacher(data), data)
