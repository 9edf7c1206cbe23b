"""BS306, BS307: weights that never move, and updates that are too large or too small."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from audits import codes, of, one
from recorded import batch, grave, layers, train
from torch import nn

import backsight as bs
from backsight.recording import TAPS
from backsight.runs import add_event

WITH_UPDATES = (*TAPS, "update")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class TestNeverMoves:
    def test_a_layer_outside_of_the_optimizer_is_named(self, tmp_path: Path) -> None:
        model = layers(1)
        finding = one(train(tmp_path / "run", model, optimizer=torch.optim.Adam(model[0].parameters())), "BS306")
        assert (finding.severity, finding.title) == ("warning", "2 of 4 weights get gradients but never move.")
        assert finding.evidence[0] == "2.weight and 2.bias: bit-identical in 20 steps."
        assert finding.evidence[1].startswith("Gradient norm of 2.weight, median of these steps: ")
        assert finding.evidence[2] == "The optimizer has no state for them, so it probably does not hold them."
        assert finding.fix == "Put them into the optimizer, or freeze them with requires_grad_(False)."

    def test_a_learning_rate_of_zero_is_told_from_that(self, tmp_path: Path) -> None:
        model = layers(1)
        groups = [
            {"params": model[0].parameters()},
            {"params": [model[2].weight]},
            {"params": [model[2].bias], "lr": 0.0},
        ]
        finding = one(train(tmp_path / "run", model, optimizer=torch.optim.Adam(groups, lr=0.01)), "BS306")
        assert finding.title == "2.bias gets gradients but never moves."
        assert finding.evidence[2] == "The optimizer has state for it."
        assert finding.fix.startswith("Check that the learning rate is not 0 and that updates are not lost to rounding")

    def test_updates_that_are_lost_in_rounding_are_found(self, tmp_path: Path) -> None:
        model = layers(1).bfloat16()
        for parameter in model.parameters():
            nn.init.uniform_(parameter, 0.5, 1.0)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x.bfloat16()) - y.bfloat16()).square().mean()

        report = train(tmp_path / "run", model, loss, torch.optim.SGD(model.parameters(), lr=1e-8))
        finding = one(report, "BS306")
        assert finding.title == "4 of 4 weights get gradients but never move."
        assert finding.fix.endswith("updates are not lost to rounding, as small ones are in bfloat16.")

    def test_frozen_weights_are_in_order(self, tmp_path: Path) -> None:
        model = layers(2)
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
        assert not train(tmp_path / "run", model, optimizer=optimizer).findings

    def test_an_unused_head_is_a_note(self, tmp_path: Path) -> None:
        model = layers(1)
        body = nn.Sequential(*model)
        model.register_module("unused", nn.Linear(3, 3))

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (body(x) - y).square().mean()

        report = train(tmp_path / "run", model, loss)
        assert not grave(report)
        assert one(report, "BS306").title == "2 of 6 weights never moved and got almost no gradient."

    @pytest.mark.parametrize(
        ("named", "left"),
        [
            ("No path leads from the loss to unused.weight and unused.bias.", None),
            ("No path leads from the loss to net.unused.weight and 1 more.", None),
            ("No path leads from the loss to unused.weight.", "1 of 6 weights never moved"),
            ("No path leads from the loss to other_unused.weight.", "2 of 6 weights never moved"),
        ],
    )
    def test_what_the_run_has_told_with_its_cause_is_not_told_again(
        self, tmp_path: Path, named: str, left: str | None
    ) -> None:
        model = layers(1)
        body = nn.Sequential(*model)
        model.register_module("unused", nn.Linear(3, 3))

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (body(x) - y).square().mean()

        train(tmp_path / "run", model, loss)
        told = bs.Finding("BS115", "warning", "opt gets no gradients.", (named,), "Call backward().")
        add_event(tmp_path / "run", 0, "findings", findings=[told.to_dict()])
        report = bs.open_run(tmp_path / "run").audit()
        titles = [each.title for each in report if each.code == "BS306"]
        assert [title.partition(" and got")[0] for title in titles] == ([left] if left else [])

    def test_a_bias_that_a_normalization_takes_off_again_is_told_to_be_left_out(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).double()
        nn.init.constant_(model[0].bias, 8.0)  # an update of rounding moves no number of this size

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x.double()) - y).square().mean()

        finding = one(train(tmp_path / "run", model, loss), "BS306")
        assert (finding.severity, finding.title) == ("note", "A bias before a normalization has no effect.")
        assert finding.evidence == (
            "0.bias: the normalization subtracts the mean, and with it the bias, whose gradient is only rounding.",
        )
        assert finding.fix == "Leave it out, with bias=False."

    def test_weights_whose_gradients_vanish_are_led_to_the_cause(self, tmp_path: Path) -> None:
        model = nn.Sequential(*(part for _ in range(12) for part in (nn.Linear(8, 8), nn.Sigmoid())), nn.Linear(8, 3))

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x) - y).square().mean()

        report = train(tmp_path / "run", model, loss, torch.optim.SGD(model.parameters(), lr=1e-3))
        (finding,) = (each for each in of(report, "BS306") if each.severity == "note")
        assert "the largest gradient norm, of " in finding.evidence[0]
        assert finding.fix.startswith("The loss does depend on them. If gradients vanish on the way (BS302), fix that")

    def test_a_model_that_has_converged_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return 1e-9 * (model(x) - y).square().mean()

        assert not grave(train(tmp_path / "run", model, loss, torch.optim.SGD(model.parameters(), lr=0.1)))

    def test_an_unused_head_in_the_loss_for_the_sake_of_ddp_is_a_note(self, tmp_path: Path) -> None:
        model = layers(1)
        body = nn.Sequential(*model)
        unused = nn.Linear(8, 3)
        model.register_module("unused", unused)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (body(x) - y).square().mean() + 0 * unused(x).sum()

        assert not grave(train(tmp_path / "run", model, loss))

    def test_gradients_that_another_model_left_are_none_of_its_own(self, tmp_path: Path) -> None:
        """The bias of a critic: its own loss gives it 0, and the one that it criticizes leaves 1 there."""
        critic, generator = nn.Linear(8, 1), nn.Linear(4, 8)
        optimizers = [torch.optim.Adam(critic.parameters()), torch.optim.Adam(generator.parameters())]
        with bs.record({"critic": critic, "generator": generator}, optimizers, run=tmp_path / "run") as rec:
            for _ in range(20):
                fake = generator(torch.randn(32, 4))
                optimizers[0].zero_grad()
                (critic(fake.detach()).mean() - critic(batch()[0]).mean()).backward()
                optimizers[0].step()
                optimizers[1].zero_grad()
                (-critic(fake).mean()).backward()
                optimizers[1].step()
        assert not grave(bs.open_run(rec.run).audit())

    def test_a_warm_up_from_zero_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 1000)
        with bs.record(model, optimizer, run=tmp_path / "run") as rec:
            for _ in range(12):
                x, y = batch()
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
                warmup.step()
        assert not bs.open_run(rec.run).audit().findings

    def test_evaluation_is_no_training(self, tmp_path: Path) -> None:
        model = layers(1)
        with bs.record(model, run=tmp_path / "run") as rec, torch.no_grad():
            for _ in range(12):
                model(batch()[0])
                rec.step()
        assert not bs.open_run(rec.run).audit().findings


class TestUpdateRatio:
    def test_steps_that_replace_the_weights_are_a_warning(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(8, 1, bias=False))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # it swings from one side to the other

        def loss(step: int) -> torch.Tensor:
            return (model(torch.eye(8)).sum() * 4 - 1).square() / 8

        report = train(tmp_path / "run", model, loss, optimizer, taps=WITH_UPDATES, steps=12)
        finding = one(report, "BS307")
        assert (finding.severity, finding.title) == ("warning", "Updates are very large for 1 of 1 weight matrix.")
        assert finding.evidence[0].startswith(
            "Update norm / weight norm, median over the steps (usually between 1e-4 and 1e-2): 0.we"
        )

    def test_steps_of_a_tenth_of_the_weights_are_a_note(self, tmp_path: Path) -> None:
        model = layers(1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
        report = train(tmp_path / "run", model, optimizer=optimizer, taps=WITH_UPDATES, steps=10)
        assert (one(report, "BS307").severity, grave(report)) == ("note", [])

    def test_steps_of_next_to_nothing_are_a_note(self, tmp_path: Path) -> None:
        model = layers(1, nn.Tanh)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-8)
        report = train(tmp_path / "run", model, optimizer=optimizer, taps=WITH_UPDATES)
        finding = one(report, "BS307")
        assert (finding.severity, finding.title) == ("note", "Updates are very small for 2 of 2 weight matrices.")

    def test_a_usual_learning_rate_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1)
        nn.init.zeros_(model[0].bias)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        assert not train(tmp_path / "run", model, optimizer=optimizer, taps=WITH_UPDATES).findings

    def test_without_the_tap_nothing_is_said(self, tmp_path: Path) -> None:
        model = layers(1)
        assert "BS307" not in codes(
            train(tmp_path / "run", model, optimizer=torch.optim.Adam(model.parameters(), lr=0.5))
        )
