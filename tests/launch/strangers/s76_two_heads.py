"""Fine-tune a signal parameter estimator: encoder frozen, two heads trained on new recordings."""
import math

import torch
import torch.nn as nn

torch.manual_seed(0)


def recordings(n, low, high, seed):
    g = torch.Generator().manual_seed(seed)
    freq = low + (high - low) * torch.rand(n, 1, generator=g)
    amp = 0.5 + torch.rand(n, 1, generator=g)
    phase = 2 * math.pi * torch.rand(n, 1, generator=g)
    t = torch.linspace(0, 1, 64)
    wave = amp * torch.sin(2 * math.pi * freq * t + phase) + 0.05 * torch.randn(n, 64, generator=g)
    return wave, freq / 10.0, amp


class Estimator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Unflatten(1, (1, 64)), nn.Conv1d(1, 16, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(16, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(256, width), nn.ReLU(),
        )
        self.frequency_head = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))
        self.amplitude_head = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, wave):
        h = self.encoder(wave)
        return self.frequency_head(h), self.amplitude_head(h)


def freeze(model, pattern):
    frozen = 0
    for name, parameter in model.named_parameters():
        if pattern in name:
            parameter.requires_grad = False
            frozen += parameter.numel()
    print(f"frozen {frozen} of {sum(p.numel() for p in model.parameters())} parameters")


class Stage:
    def __init__(self, model, lr, label):
        self.model, self.label = model, label
        self.opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)

    def fit(self, data, epochs, report_every):
        wave, freq, amp = data
        for epoch in range(epochs):
            for idx in torch.randperm(len(wave)).split(64):
                f, a = self.model(wave[idx])
                loss_f = nn.functional.mse_loss(f, freq[idx])
                loss_a = nn.functional.mse_loss(a, amp[idx])
                self.opt.zero_grad()
                (loss_f + loss_a).backward()
                self.opt.step()
            if (epoch + 1) % report_every == 0:
                print(f"{self.label} epoch {epoch + 1:2d}", self.report(data))

    @torch.no_grad()
    def report(self, data):
        wave, freq, amp = data
        f, a = self.model(wave)
        return f"frequency error {(f - freq).abs().mean() * 10:.3f} Hz, amplitude error {(a - amp).abs().mean():.3f}"


def main():
    model = Estimator()
    Stage(model, 2e-3, "pretrain").fit(recordings(1500, 2, 6, seed=1), 10, 5)
    freeze(model, "enc")
    new = recordings(600, 5, 9, seed=2)
    tuned = Stage(model, 2e-3, "finetune")
    print("finetune start   ", tuned.report(new))
    tuned.fit(new, 20, 4)


main()
