"""Healthy training programs: how a loop may be written around one model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from healthy import STEPS, Check, mlp, programs
from torch import nn
from torch.func import functional_call as call_with

import backsight as bs


def zero_grad_before_the_forward(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        loss.backward()
        optimizer.step()
        scheduler.step()


def zero_grad_after_the_loss(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def zero_grad_in_place_after_the_loss(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()


def accumulating_gradients(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for micro in range(3 * STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,))) / 3
        check(bs.audit(loss))
        loss.backward()
        if (micro + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=micro % 2 == 0)


def closure_of_lbfgs(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x, y = torch.randn(5, 4), torch.randint(3, (5,))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def adam_then_lbfgs(check: Check) -> None:
    model = mlp()
    adam, lbfgs = torch.optim.Adam(model.parameters()), torch.optim.LBFGS(model.parameters(), max_iter=2)
    x, y = torch.randn(5, 4), torch.randint(3, (5,))
    for _ in range(STEPS):
        adam.zero_grad()
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        adam.step()

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        return loss

    for _ in range(STEPS):
        lbfgs.step(closure)


def average_of_weights(check: Check) -> None:
    model = mlp()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    slow = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            for s, p in zip(slow.parameters(), model.parameters(), strict=True):
                s.lerp_(p, 0.1)


def autocast_with_a_scaler(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(5, 4)).float(), torch.randint(3, (5,)))
        scaled = scaler.scale(loss)
        check(bs.audit(scaled))
        optimizer.zero_grad()
        scaled.backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def functional_call(check: Check) -> None:
    model = mlp()
    weights = dict(model.named_parameters())
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        out = call_with(model, weights, (torch.randn(5, 4),))
        loss = F.cross_entropy(out, torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stateless_weights_in_a_list(check: Check) -> None:
    weights = [torch.randn(4, 8, requires_grad=True), torch.randn(8, 3, requires_grad=True)]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    for _ in range(STEPS):
        loss = F.cross_entropy((torch.randn(5, 4) @ weights[0]).relu() @ weights[1], torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def several_losses_over_one_forward(check: Check) -> None:
    trunk, a, b = mlp(outputs=8), nn.Linear(8, 1), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*trunk.parameters(), *a.parameters(), *b.parameters()])
    for _ in range(STEPS):
        h = trunk(torch.randn(5, 4))
        first, second = a(h).mean(), b(h).pow(2).mean()
        optimizer.zero_grad()
        check(bs.audit(first))
        first.backward(retain_graph=True)
        check(bs.audit(second))
        second.backward()
        optimizer.step()


def one_loss_for_several_optimizers(check: Check) -> None:
    encoder, decoder = mlp(outputs=2), mlp(2, 4)
    optimizers = {"encoder": torch.optim.Adam(encoder.parameters()), "decoder": torch.optim.Adam(decoder.parameters())}
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        loss = F.mse_loss(decoder(encoder(x)), x)
        check(bs.audit(loss))
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()


def folds_trained_at_one_line(check: Check) -> None:
    for _ in range(3):
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(STEPS):
            loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
            check(bs.audit(loss))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def loss_summed_over_a_sequence(check: Check) -> None:
    cell = nn.GRUCell(4, 8)
    optimizer = torch.optim.Adam(cell.parameters())
    for _ in range(STEPS):
        h, loss = torch.zeros(3, 8), torch.zeros(())
        for _ in range(5):
            h = cell(torch.randn(3, 4), h)
            loss = loss + h.pow(2).mean()
            check(bs.audit(loss))  # within the sequence, where the graph grows as it should
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def by_hand(check: Check) -> None:
    w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for _ in range(STEPS):
        loss = (torch.randn(5, 4) @ w + b).pow(2).mean()
        check(bs.audit(loss))
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            w.grad, b.grad = None, None


def temperature_by_hand_beside_an_optimizer(check: Check) -> None:
    model, log_alpha = mlp(4, 2), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        loss = (log_alpha.exp() * model(torch.randn(5, 4))).pow(2).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            log_alpha -= 0.01 * log_alpha.grad
            log_alpha.grad = None


class SAM(torch.optim.Optimizer):
    def __init__(self, params: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, dict(rho=rho, **options))
        self.base_optimizer = torch.optim.SGD(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["e"] = e = 0.05 * p.grad / (p.grad.norm() + 1e-12)
                p.add_(e)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["e"])
        self.base_optimizer.step()
        self.zero_grad()


def sharpness_aware(check: Check) -> None:
    model = mlp()
    optimizer = SAM(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(5, 4), torch.randint(3, (5,))
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        optimizer.first_step()
        again = F.cross_entropy(model(x), y)
        check(bs.audit(again))
        again.backward()
        optimizer.second_step()


class Trainer:
    """Models and optimizers in attributes, the audit deep inside."""

    def __init__(self, check: Check) -> None:
        self.check, self.parts = check, {"net": mlp(), "head": nn.Linear(3, 2)}
        groups = [{"params": part.parameters()} for part in self.parts.values()]
        self.optimizers = [torch.optim.Adam(groups)]

    def batches(self) -> Iterator[torch.Tensor]:
        for _ in range(STEPS):
            yield torch.randn(5, 4)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts["head"](self.parts["net"](x)).pow(2).mean()

    def step(self, x: torch.Tensor) -> None:
        loss = self.loss(x)
        self.check(bs.audit(loss))
        loss.backward()
        self.optimizers[0].step()
        self.optimizers[0].zero_grad()


def trainer_object(check: Check) -> None:
    trainer = Trainer(check)
    for x in trainer.batches():
        trainer.step(x)


PROGRAMS = programs(globals())
