"""BS113: what an optimizer does not move, though it has gradients; and what is slow on purpose or has arrived."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from audits import codes, mlp, of, one
from torch import nn

import backsight as bs

After = Callable[[int], None]


def trained(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 10, after: After = lambda step: None
) -> bs.Report:
    """Train under a watch, and return the audit of the last loss."""
    dtype = next(model.parameters()).dtype
    with bs.watch():
        for step in range(steps):
            loss = (model(torch.randn(8, 4, dtype=dtype)) - 1).square().mean()
            optimizer.zero_grad()
            report = bs.audit(loss)
            loss.backward()
            optimizer.step()
            after(step)
    return report


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class TestFound:
    def test_a_learning_rate_of_zero(self) -> None:
        model = mlp()
        finding = one(trained(model, torch.optim.Adam(model.parameters(), lr=0.0)), "BS113")
        assert (finding.severity, finding.title) == ("warning", "optimizer.step() does not move 4 of its 4 parameters.")
        assert finding.evidence[0].startswith(
            "model.0.weight, model.0.bias, model.2.weight and model.2.bias: bit-identical in 6 steps, although the "
            "gradient is not zero (up to "
        )
        assert finding.evidence[1] == "Its learning rate is 0."
        assert finding.fix.startswith("Check the scheduler: an integer division in the warm-up")

    def test_one_group_of_several(self) -> None:
        model = mlp()
        groups = [
            {"params": model[0].parameters()},
            {"params": [model[2].weight]},
            {"params": [model[2].bias], "lr": 0.0},
        ]
        finding = one(trained(model, torch.optim.SGD(groups, lr=0.1)), "BS113")
        assert finding.title == "optimizer.step() does not move model.2.bias."

    def test_updates_that_are_rounded_away(self) -> None:
        model = mlp().bfloat16()
        for parameter in model.parameters():
            nn.init.uniform_(parameter, 0.5, 1.0)
        finding = one(trained(model, torch.optim.SGD(model.parameters(), lr=1e-7)), "BS113")
        assert finding.evidence[1] == (
            "A bfloat16 has 8 significant bits: with a learning rate of 1e-07 an update is smaller than the distance "
            "to the next number and is rounded away."
        )
        assert finding.fix.startswith("Keep them in float32 and compute under torch.autocast")

    def test_a_share_of_all_values_that_is_grave_is_the_title(self) -> None:
        model = mlp().bfloat16()
        with torch.no_grad():
            model[0].bias.zero_()
            model[2].bias.zero_()
        for parameter in (model[0].weight, model[2].weight):
            nn.init.uniform_(parameter, 0.5, 1.0)
        finding = one(trained(model, torch.optim.SGD(model.parameters(), lr=1e-7)), "BS113")
        (share,) = re.findall(r"(\d+%) never moved", finding.evidence[2])
        assert finding.title == f"optimizer.step() does not move {share} of the values of its parameters."

    def test_values_that_are_put_back(self) -> None:
        model = mlp()
        kept = model[0].weight.detach().clone()

        def restore(step: int) -> None:
            model[0].weight.data.copy_(kept)

        report = trained(model, torch.optim.Adam(model.parameters(), lr=0.01), after=restore)
        # The watch looks just after the step, where the weight has moved.
        assert of(report, "BS113") == []

        def step_and_restore(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
            model[0].weight.data.copy_(kept)

        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        handle = optimizer.register_step_post_hook(step_and_restore)
        try:
            finding = one(trained(model, optimizer), "BS113")
        finally:
            handle.remove()
        assert finding.title == "optimizer.step() does not move model.0.weight."
        assert finding.evidence[1].endswith("should have moved it: something restores the old value.")

    def test_a_rate_that_rises_later_takes_it_back(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

        def warm_up(step: int) -> None:
            optimizer.param_groups[0]["lr"] = 0.1 * (step > 10)

        assert of(trained(model, optimizer, 10, warm_up), "BS113")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        assert not of(trained(model, optimizer, 18, warm_up), "BS113")


class TestHealthy:
    @pytest.mark.parametrize(
        "make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
    )
    def test_ordinary_trainings(self, make: Callable[..., torch.optim.Optimizer]) -> None:
        model = mlp()
        assert codes(trained(model, make(model.parameters(), lr=1e-3), 34)) == []

    def test_a_warm_up_from_zero(self) -> None:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 1000)
        assert codes(trained(model, optimizer, 12, lambda step: schedule.step())) == []

    def test_frozen_parameters_and_those_without_a_gradient(self) -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        model[0].requires_grad_(False)
        assert not of(trained(model, torch.optim.SGD(model.parameters(), lr=0.1)), "BS113")

    def test_a_bias_before_a_normalization(self) -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        assert not of(trained(model, torch.optim.SGD(model.parameters(), lr=1e-3)), "BS113")

    def test_rows_of_a_table_that_are_not_looked_up(self) -> None:
        table = nn.Embedding(1000, 4)
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        with bs.watch():
            for step in range(12):
                loss = table(torch.tensor([step, step + 1])).square().sum()
                optimizer.zero_grad()
                report = bs.audit(loss)
                loss.backward()
                optimizer.step()
        assert codes(report) == []

    def test_a_solution_that_was_reached(self) -> None:
        weight = torch.ones(4, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.5)
        target = torch.full((4,), 3.0)
        with bs.watch():
            for _ in range(12):
                loss = (weight - target).square().sum() / 2 + weight.sum() * 1e-9
                optimizer.zero_grad()
                report = bs.audit(loss)
                loss.backward()
                optimizer.step()
        assert codes(report) == []

    def test_memory_is_let_go_with_the_optimizer(self) -> None:
        model = mlp()
        with bs.watch() as watch:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                model(torch.randn(3, 4)).mean().backward()
                optimizer.step()
            assert [course.samples for _, course in watch.steps.moves._courses.items()] != []
            del optimizer
            import gc

            gc.collect()
            assert len(watch.steps.moves._courses) == 0
