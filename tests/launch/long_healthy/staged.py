"""Staged fine-tuning: a pretrained backbone, frozen at first, whose blocks join the training one after another."""

import copy
import hashlib
import io
import math

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

PRETRAINING, STAGES = 300, (400, 600, 1000)  # steps: the head alone, with the last block, with all
WARM_UP, EVALUATE_EACH, PATIENCE, BATCH = 50, 100, 8, 32


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = self._block(1, 8)
        self.layer1 = self._block(8, 16)
        self.layer2 = self._block(16, 24)

    @staticmethod
    def _block(before, after):
        return nn.Sequential(
            nn.Conv1d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm1d(after), nn.ReLU(inplace=True)
        )

    def forward(self, x):
        return self.layer2(self.layer1(self.stem(x))).mean(dim=2)


class Classifier(nn.Module):
    def __init__(self, classes, backbone=None):
        super().__init__()
        self.backbone = backbone if backbone is not None else Backbone()
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(24, classes))
        self.frozen = []

    def forward(self, x):
        return self.head(self.backbone(x))

    def freeze(self, *names):
        self.frozen = list(names)
        for name, block in self.backbone.named_children():
            block.requires_grad_(name not in self.frozen)
        return self.train(self.training)

    def train(self, mode=True):
        """Frozen blocks keep their running statistics."""
        super().train(mode)
        for name in self.frozen:
            getattr(self.backbone, name).eval()
        return self


def waves(count, frequencies, seed):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(len(frequencies), (count,), generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, generator=generator)
    time = torch.linspace(0, 2 * math.pi, 32)
    clean = torch.sin(torch.tensor(frequencies)[target, None] * time + phase)
    return (clean + 0.6 * torch.randn(count, 32, generator=generator)).unsqueeze(1), target


def batches(data, steps, size):
    x, y = data
    done = 0
    while done < steps:
        for index in torch.randperm(len(x)).split(size):
            if done == steps or len(index) < size:
                break
            yield x[index], y[index]
            done += 1


def pretrain():
    """Tell two frequencies apart; return the backbone's weights as a checkpoint."""
    model = Classifier(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for x, y in batches(waves(1000, (2.0, 6.0), seed=1), PRETRAINING, BATCH):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save(model.backbone.state_dict(), file)
    file.seek(0)
    return file


@torch.no_grad()
def accuracy(model, data):
    was_training = model.training
    model.eval()
    x, y = data
    correct = sum((model(a).argmax(dim=1) == b).sum().item() for a, b in zip(x.split(200), y.split(200), strict=True))
    model.train(was_training)
    return correct / len(x)


def scale(step, steps):
    """Warm-up, then half a cosine."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))


class Trainer:
    def __init__(self, model, train, valid):
        self.model, self.train, self.valid = model, train, valid
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
        self.optimizer = torch.optim.AdamW(model.head.parameters(), lr=3e-3, weight_decay=1e-2)
        self.step, self.best, self.best_state, self.waited = 0, 0.0, None, 0

    def unfreeze(self, keep, blocks, lr):
        self.model.freeze(*keep)
        for block in blocks:
            self.optimizer.add_param_group({"params": block.parameters(), "lr": lr})

    def fit(self, steps):
        """Run a stage, with a schedule of its own."""
        for group in self.optimizer.param_groups:
            group["initial_lr"] = group.get("initial_lr", group["lr"])
        base = [group["initial_lr"] for group in self.optimizer.param_groups]
        self.model.train()
        total = 0.0
        for k, (x, y) in enumerate(batches(self.train, steps, BATCH)):
            for group, lr in zip(self.optimizer.param_groups, base, strict=True):
                group["lr"] = lr * scale(k, steps)
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
            self.optimizer.step()
            self.ema.update_parameters(self.model)
            self.step += 1
            total += loss.item()
            if self.step % EVALUATE_EACH == 0:
                print(f"{self.step:5d} loss {total / EVALUATE_EACH:.4f}", end=" ")
                total = 0.0
                if self.is_over():
                    return True
        return False

    def is_over(self):
        """Keep the best averaged weights; true once they have not improved for long."""
        plain, averaged = accuracy(self.model, self.valid), accuracy(self.ema, self.valid)
        print(f"valid {plain:.3f} ema {averaged:.3f}")
        if averaged > self.best:
            self.best, self.waited = averaged, 0
            self.best_state = copy.deepcopy(self.ema.module.state_dict())
        else:
            self.waited += 1
        return self.waited >= PATIENCE


def main():
    torch.manual_seed(0)
    checkpoint = pretrain()
    frequencies = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    train, valid = waves(2000, frequencies, seed=2), waves(600, frequencies, seed=3)
    model = Classifier(len(frequencies))
    model.backbone.load_state_dict(torch.load(checkpoint))
    backbone = model.backbone
    model.freeze("stem", "layer1", "layer2")
    trainer = Trainer(model, train, valid)
    plan = [((), ()), (("stem", "layer1"), (backbone.layer2,)), ((), (backbone.layer1, backbone.stem))]
    for stage, ((keep, blocks), steps) in enumerate(zip(plan, STAGES, strict=True), 1):
        if blocks:
            trainer.unfreeze(keep, blocks, lr=3e-3 / stage)
        trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        print(f"stage {stage}: {trainable} parameters in {len(trainer.optimizer.param_groups)} groups")
        if trainer.fit(steps):
            print("stopped early")
            break
    model.load_state_dict(trainer.best_state)
    print(f"best {trainer.best:.3f}, restored {accuracy(model, valid):.3f}")
    print(hashlib.sha256(b"".join(t.numpy().tobytes() for t in model.state_dict().values())).hexdigest())


if __name__ == "__main__":
    main()
