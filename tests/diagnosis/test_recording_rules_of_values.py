"""BS301, BS309, BS310: NaN and infinity in a recording, and a loss that does not fall."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from audits import codes, of, one
from recorded import EVERYTHING, batch, fitted, grave, layers, marked, train
from torch import nn

import backsight as bs
from backsight.diagnosis.live.deaf import indifferent
from backsight.diagnosis.recordings.losses import rise
from backsight.runs import FOUND, add_event


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Root(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sqrt()


class TestNonFinite:
    def test_bad_data_are_named_with_their_step(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            if step == 12:
                x[3, 2] = math.nan
            return (model(x) - y).square().mean()

        finding = one(train(tmp_path / "run", model, loss), "BS301")
        assert (finding.severity, finding.title) == ("error", "input first contained NaN at step 12.")
        assert finding.evidence[0] == "1 NaN of 256 elements; input of the model itself."
        assert finding.evidence[-1] == "Not finite in the last step: 0.weight, 0.bias, 2.weight and 2.bias."
        assert finding.fix == "Check the data of this step, and the code that prepares it for the model."

    def test_a_module_that_makes_nan_of_finite_numbers_is_named(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(8, 8), Root(), nn.Linear(8, 1))
        nn.init.uniform_(model[0].weight, 0.1, 0.2)
        nn.init.constant_(model[0].bias, 1)

        def loss(step: int) -> torch.Tensor:
            x = torch.rand(32, 8) + 1
            return model(-x if step == 12 else x).square().mean()

        finding = one(train(tmp_path / "run", model, loss, torch.optim.SGD(model.parameters(), lr=1e-3)), "BS301")
        assert finding.title == "1.output first contained NaN at step 12."
        assert finding.evidence[1].startswith("The input of the module was finite (largest magnitude ")
        assert finding.evidence[1].endswith(", so it arose inside.")

    @pytest.mark.parametrize(
        ("added", "known"),
        [
            (-1.0, True),  # NaN alone
            (0.0, False),  # log(0) is there too
        ],
    )
    def test_what_a_module_ends_in_tells_why_it_is_nan_without_infinity(
        self, tmp_path: Path, added: float, known: bool
    ) -> None:
        class Price(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Linear(8, 1)

            def forward(self, x: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
                return (self.scale(x).square() + 1 + low).log().squeeze(1)

        model = Price()

        def loss(step: int) -> torch.Tensor:
            low = torch.zeros(32, 1)
            if step == 12:
                low[3] = -1e6
                with torch.no_grad():
                    x = torch.randn(32, 8)
                    low[4] = low[3] if added else -(model.scale(x)[4].square() + 1)
                return model(x, low).square().mean()
            return model(torch.randn(32, 8), low).square().mean()

        finding = one(train(tmp_path / "run", model, loss), "BS301")
        assert finding.title == "output first contained NaN at step 12."
        if known:
            assert finding.evidence[0].startswith("2 NaN of 32 elements")
            assert finding.fix.startswith(
                "The model ends in log, which is NaN for a negative number; log(0) is -inf. Keep its argument "
                "positive, for example with .clamp(min=1e-6) or softplus. `backsight run --nonfinite"
            )
        else:
            assert finding.evidence[0].startswith("1 NaN and 1 infinite of 32 elements")
            assert finding.fix.startswith("Check the module: a division by 0, log(0), ")

    @pytest.mark.parametrize(("lowered", "known"), [(True, True), (False, False)])
    def test_a_parameter_outside_of_what_its_operation_is_defined_for_is_named(
        self, tmp_path: Path, lowered: bool, known: bool
    ) -> None:
        class Scale(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc, self.var = nn.Linear(8, 1), nn.Parameter(torch.tensor(1.0))

            def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
                std = torch.sqrt(self.var)
                return self.fc(x) * std * factor

        model = Scale()

        def loss(step: int) -> torch.Tensor:
            if step == 12 and lowered:
                with torch.no_grad():
                    model.var.fill_(-0.25)
            return model(batch()[0], math.nan if step == 12 else 1.0).square().mean()

        optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.01)
        finding = one(train(tmp_path / "run", model, loss, optimizer), "BS301")
        said = (
            "The forward computes sqrt of var, which went from 1.0 at step 11 to -0.25 at step 12: sqrt is NaN there."
        )
        assert (said in finding.evidence) is known
        assert (
            finding.fix.startswith("Nothing keeps the parameter var from becoming negative: compute sqrt of ") is known
        )

    def test_between_two_modules_it_is_no_matter_of_the_data(self, tmp_path: Path) -> None:
        class Attention(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scores, self.out = nn.Linear(8, 8), nn.Linear(8, 1)

            def forward(self, x: torch.Tensor, masked: bool) -> torch.Tensor:
                scores = self.scores(x)
                return self.out(scores.masked_fill(torch.tensor(masked), -math.inf).softmax(-1))

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.attn = Attention()

            def forward(self, x: torch.Tensor, masked: bool) -> torch.Tensor:
                return self.attn(x, masked)

        model = Block()
        report = train(tmp_path / "run", model, lambda step: model(torch.randn(4, 8), step == 12).square().mean())
        finding = one(report, "BS301")
        assert finding.title == "attn.out.input first contained NaN at step 12."
        assert finding.fix.startswith(
            "Check the forward of attn: its input is finite, and so are the outputs of the modules inside it, so it "
            "arose in the lines between: a division by 0, log(0), sqrt of a negative number, an overflow in exp "
            "or in half precision, or a fully masked row. `backsight run --nonfinite"
        )

    @pytest.mark.parametrize("marks", [True, False])
    def test_a_derivative_that_is_not_finite_is_found_at_the_end_of_the_model(
        self, tmp_path: Path, marks: bool
    ) -> None:
        model = layers(3)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            error = (model(x) - y) * (0 if step == 12 else 1)
            return error.square().sum().sqrt()

        finding = one(train(tmp_path / "run", model, loss, marks=marks), "BS301")
        assert finding.title in (
            "The gradient of 6.weight first contained NaN at step 12.",
            "The gradient of 6.bias first contained NaN at step 12.",
        )
        known = "The forward pass was finite, so look for an infinite derivative: sqrt"
        assert finding.fix.startswith(known), "what backward() was called on is recorded without being asked"

    def test_of_a_loss_that_was_marked_and_not_finite_nothing_else_is_said(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x) - y).square().mean() * (math.nan if step == 12 else 1.0)

        finding = one(train(tmp_path / "run", model, loss, marks=True), "BS301")
        assert finding.fix.startswith(
            "The loss of this step was not finite itself: check it and its inputs for a division by 0, log(0), or an "
            "overflow. `backsight run --nonfinite"
        )

    @pytest.mark.parametrize(
        ("started", "arguments", "command"),
        [
            (["python", "-u", "train it.py", "--lr", "1"], ["--lr", "1"], " 'train it.py' --lr 1"),
            (["python", "bin/backsight", "run", "--record", "t.py"], [], " t.py"),
            (["python", "-m", "pack.train", "x"], ["x"], " -m pack.train x"),
            (["python", "-m", "ipykernel_launcher", "-f", "k"], ["-f", "k"], ""),
            (["python", "-c", "import t", "x"], ["x"], ""),
            (["python", "t.py", "--a"], ["--b"], ""),
            (["python", "t.py", "x" * 200], ["x" * 200], ""),
        ],
    )
    def test_the_command_that_names_the_line_is_that_of_the_recorded_program(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        started: list[str],
        arguments: list[str],
        command: str,
    ) -> None:
        monkeypatch.setattr(sys, "orig_argv", started)
        monkeypatch.setattr(sys, "argv", ["t.py", *arguments])
        model = layers(1)
        report = train(tmp_path / "run", model, lambda step: model(batch()[0]).mean() * math.nan, marks=True)
        assert one(report, "BS301").fix.endswith(f" `backsight run --nonfinite{command}` names the line.")

    def test_of_a_loss_that_a_module_returned_it_is_known_that_it_was_finite(self, tmp_path: Path) -> None:
        class Rooted(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body = layers(1)

            def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
                out: torch.Tensor = (self.body(x) * scale).square().sum().sqrt()
                return out

        model = Rooted()
        report = train(tmp_path / "run", model, lambda step: model(batch()[0], 0.0 if step == 12 else 1.0))
        assert one(report, "BS301").fix.startswith("The forward pass was finite")

    def test_with_gradients_of_outputs_the_module_is_exact(self, tmp_path: Path) -> None:
        model = layers(3)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return ((model(x) - y) * (0 if step == 12 else 1)).norm(dim=0).pow(0.5).sum()

        finding = one(train(tmp_path / "run", model, loss, taps=EVERYTHING), "BS301")
        assert finding.title == "The gradient of 6.output first contained NaN at step 12."

    def test_a_training_that_diverges_is_told_from_one_bad_step(self, tmp_path: Path) -> None:
        model = layers(1)
        report = train(tmp_path / "run", model, optimizer=torch.optim.SGD(model.parameters(), lr=3.0))
        finding = one(report, "BS301")
        assert finding.severity == "error"
        run = bs.open_run(tmp_path / "run")
        norms = run.scalars()["grad_norm"]
        end = int(finding.title.split()[-1][:-1])
        before = ", ".join(f"{norm:.2g}" for norm in norms.values[norms.steps < end][-3:])
        assert f"Gradient norm at steps {end - 3}, {end - 2} and {end - 1}: {before}." in finding.evidence
        assert finding.fix == ("Training diverged before that: lower the learning rate, warm it up, or clip gradients.")

    def test_between_recorded_steps_it_is_said_that_it_came_between(self, tmp_path: Path) -> None:
        model = layers(2)
        report = train(tmp_path / "run", model, optimizer=torch.optim.SGD(model.parameters(), lr=30.0), every=10)
        finding = one(report, "BS301")
        assert finding.title.endswith(".weight first contained NaN at step 10.")
        assert "The previous recorded step is 0: it arose after that." in finding.evidence

    def test_without_gradients_it_is_a_warning_if_it_lasts(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(8, 8), Root())
        nn.init.constant_(model[0].bias, -10)
        with bs.record(model, run=tmp_path / "run", taps=("input", "output")) as rec:
            for _ in range(3):
                model(torch.randn(4, 8))
                rec.step()
        finding = one(bs.open_run(tmp_path / "run").audit(), "BS301")
        assert (finding.severity, finding.title) == ("warning", "1.output first contained NaN at step 0.")

    def test_what_passes_is_a_note(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x) - y).square().mean() * (math.inf if step == 5 else 1)

        class Skipping(torch.optim.SGD):
            """Passes over what is not finite, as under a gradient scaler."""

            def step(self, closure: None = None) -> None:
                if all(p.grad.isfinite().all() for group in self.param_groups for p in group["params"]):
                    super().step()

        report = train(tmp_path / "run", model, loss, Skipping(model.parameters(), lr=0.01))
        assert not grave(report)
        assert "without lasting harm" in one(report, "BS301").title

    def test_masks_of_infinity_are_in_order_even_where_something_else_is_not(self, tmp_path: Path) -> None:
        mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf)

        class Attention(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scores = nn.Linear(4, 4)
                self.register_buffer("mask", mask)

            def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
                return (self.scores(x) + mask).softmax(-1) @ x

        model = Attention()

        def loss(step: int) -> torch.Tensor:
            x = torch.randn(4, 4)
            if step == step_of_nan:
                x[0, 0] = math.nan
            return model(x, mask).square().mean()

        step_of_nan = -1
        assert not train(tmp_path / "healthy", model, loss).findings
        step_of_nan = 0
        assert one(train(tmp_path / "ill", model, loss), "BS301").title == "x first contained NaN at step 0."


class TestRise:
    def test_a_jump_of_the_loss_before_is_named_with_what_to_look_at(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x) - y + (100 if step >= 26 else 0)).square().mean() * (math.nan if step >= 30 else 1.0)

        report = train(tmp_path / "run", model, loss, steps=32)
        values = bs.open_run(tmp_path / "run").scalars()["loss"].values
        finding = one(report, "BS301")
        said = "The loss 'loss' rose to more than 10 times its median at step 26 and stayed there: "
        after = ", ".join(f"{value:.4g}" for value in values[26:30])
        assert f"{said}{values[25]:.4g} at step 25, then {after}." in finding.evidence
        assert finding.fix.startswith("Check what changed at step 26: the data, the targets, or the learning rate. The")
        assert "The loss 'loss' is NaN from step 30 to the end." in finding.evidence
        assert of(report, "BS309") == [], "one cause, one finding"

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1.0] * 12 + [50.0] * 2, 12),
            ([1.0] * 12 + [50.0] * 6, 12),
            ([1.0] * 200 + [50.0] * 20, 200),
            ([1.0] * 200 + [50.0] * 21, None),  # so long ago that it is no reason
            ([1.0] * 12 + [50.0, 1.0], None),  # one bad batch
            ([1.0] * 9 + [50.0] * 3, None),  # nobody knows what is usual
            ([-1.0] * 12 + [50.0] * 2, None),
            ([0.0] * 12 + [50.0] * 2, None),
            ([1.0] * 12 + [9.0] * 2, None),
            ([math.nan] + [1.0] * 12 + [50.0] * 2, None),
            ([], None),
        ],
    )
    def test_only_what_stays_high_to_the_end_is_a_rise(self, values: list[float], expected: int | None) -> None:
        marked = np.arange(len(values) + 1), np.array([*values, math.nan])
        found = rise(marked, len(values))
        assert (None if found is None else found.step) == expected


class TestLostLoss:
    def test_one_that_was_lost_before_any_tensor_is_a_finding_of_its_own(self, tmp_path: Path) -> None:
        model = layers(1)
        with bs.record(model, run=tmp_path / "run") as rec:
            for step in range(20):
                model(batch()[0] * (math.nan if step >= 10 else 1)).square().mean().backward()
                rec.mark(val_loss=math.nan if step >= 5 else 1.0)
                rec.step()
        report = bs.open_run(tmp_path / "run").audit()
        assert one(report, "BS309").title == "The loss 'val_loss' is NaN from step 5 on."
        assert "at step 10" in one(report, "BS301").title
        assert not any("val_loss" in str(fact) for fact in one(report, "BS301").evidence)

    def test_a_loss_that_stays_nan_is_an_error(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch(0 if step >= 15 else 4)
            return nn.functional.mse_loss(model(x), y)

        finding = one(train(tmp_path / "run", model, loss, marks=True), "BS309")
        assert (finding.severity, finding.title) == ("error", "The loss 'loss' is NaN from step 15 on.")
        assert finding.evidence[0].startswith("Before: ")
        assert finding.evidence[0].endswith(". It stays so to the end, for 5 steps.")

    @pytest.mark.parametrize(
        ("name", "values", "expected"),
        [
            ("train/Loss", [1.0, 2.0, math.inf], "The loss 'train/Loss' is infinite from step 2 on."),
            ("loss", [math.nan, math.nan], "The loss 'loss' is NaN from step 0 on."),
            ("val_loss", [math.nan, math.nan, 1.0], None),
            ("val_loss", [1.0, math.nan, 0.9, math.nan], None),
            ("best_loss", [math.inf, math.inf], None),
            ("best_loss", [math.inf, 1.0, 0.5], None),
            ("accuracy", [0.5, math.nan], None),
            ("loss", ["none", None, 1.0], None),
            ("losses", [[1.0, math.nan]], None),
        ],
    )
    def test_a_loss_that_was_or_will_be_waited_for_is_in_order(
        self, name: str, values: list[object], expected: str | None, tmp_path: Path
    ) -> None:
        model = layers(1)
        with bs.record(model, run=tmp_path / "run") as rec:
            for value in values:
                rec.mark(**{name: value})
                rec.step()
        found = of(bs.open_run(tmp_path / "run").audit(), "BS309")
        assert [finding.title for finding in found] == ([expected] if expected else [])

    def test_a_finite_loss_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1)
        assert codes(train(tmp_path / "run", model, fitted(model), marks=True)) == []


class TestLossThatDoesNotFall:
    NOISE = np.random.default_rng(0).normal(size=200)

    @pytest.mark.parametrize(
        ("losses", "expected"),
        [
            ({"loss": 5 + NOISE}, "The loss did not fall."),
            ({"loss": 2 + 0.01 * np.arange(200)}, "The loss did not fall."),
            ({"loss": 2.3 - 1e-5 * np.arange(200)}, "The loss did not fall."),
            ({"loss": np.r_[np.linspace(2, 1.6, 100), np.linspace(1.6, 4, 100)]}, "The loss did not fall."),
            ({"d_loss": 1 + 0.1 * NOISE, "g_loss": 1 - 0.1 * NOISE}, "The losses 'd_loss' and 'g_loss' did not fall."),
            ({"loss": 5 - 0.02 * np.arange(200) + NOISE}, None),
            ({"loss": -1.0 - 0.01 * np.arange(200)}, None),
            ({"d_loss": 1 + 0.1 * NOISE, "g_loss": 3 - 0.01 * np.arange(200)}, None),
            ({"loss": 5 + NOISE[:40]}, None),
            ({"loss": np.r_[np.geomspace(5, 1e-3, 70), 1e-3 + 1e-6 * np.arange(1430)]}, None),  # soon as low as it gets
            ({"loss": np.r_[np.linspace(2, 0.2, 100), np.linspace(1.6, 4, 100)]}, None),  # another task, perhaps
            ({"loss": 0.1 * NOISE}, None),  # of either sign: no distance from what is wanted
            ({"loss": np.r_[5 + NOISE, math.nan]}, None),
            ({"accuracy": 0.5 + 0 * NOISE}, None),
        ],
    )
    def test_it_is_noted_where_no_loss_of_the_run_falls(
        self, losses: dict[str, np.ndarray], expected: str | None, tmp_path: Path
    ) -> None:
        found = of(marked(tmp_path, losses), "BS310")
        assert [(each.severity, each.title) for each in found] == ([("note", expected)] if expected else [])

    def test_its_course_is_told(self, tmp_path: Path) -> None:
        losses = {"loss": np.r_[np.linspace(2, 1.6, 50), np.linspace(1.6, 4, 50)]}
        assert one(marked(tmp_path, losses), "BS310").evidence == (
            "1.963 over the first 10 values, 3.78 over the last 10 (medians); the lowest is 1.6, at step 49.",
        )

    def test_one_that_exploded_blames_the_learning_rate(self, tmp_path: Path) -> None:
        values = np.r_[2.5, 2.4, 2.45, 426.9, np.linspace(40, 2.34, 96)]
        finding = one(marked(tmp_path, {"loss": values, "lr": np.full(100, 3.0)}), "BS310")
        assert (finding.severity, finding.title, finding.since) == ("warning", "The loss did not fall.", 3)
        (course,) = finding.evidence
        assert str(course).startswith("It jumped from 2.45 to 426.9 at step 3 and ended at ")
        assert str(course).endswith(" (median of the last 10 values), no better than it began.")
        assert finding.fix.startswith("The learning rate, 3, is probably too high: ")

    def test_one_of_either_sign_may_be_small_at_first(self, tmp_path: Path) -> None:
        values = np.r_[0.001, -0.002, 0.05, 0.1 + 0.3 * self.NOISE]
        finding = one(marked(tmp_path, {"policy_loss": values}), "BS310")
        assert (finding.severity, finding.since) == ("note", None)

    @pytest.mark.parametrize(("exploded", "expected"), [(True, ["BS310"]), (False, ["BS114", "BS310"])])
    def test_rows_that_are_alike_after_an_explosion_are_its_consequence(
        self, exploded: bool, expected: list[str], tmp_path: Path
    ) -> None:
        values = np.r_[2.4, 400.0, 2.4 * np.ones(98)] if exploded else 2.4 * np.ones(100)
        marked(tmp_path, {"loss": values})
        add_event(tmp_path / "run", 0, FOUND, findings=[indifferent("net", 32, 3).to_dict()])
        found = bs.open_run(tmp_path / "run").audit().findings
        assert [each.code for each in found] == expected
        assert ("`backsight run` found its consequence: BS114." in found[0].evidence) == exploded

    @pytest.mark.parametrize(
        ("loss", "ratio", "severity", "title"),
        [
            (5 + NOISE, 2e-8, "warning", "The loss did not fall."),
            (5 + NOISE, 2e-3, "note", "The loss did not fall."),
            (2.3 - 5e-4 * np.arange(200), 1e-4, "note", "The loss fell by only 3.9%, and is still falling."),
            (2.3 - 5e-4 * np.arange(200), 2e-3, None, None),
            (2.3 - 0.1 * (1 - np.exp(-np.arange(200) / 20)), 1e-4, None, None),  # it has come to its end
        ],
    )
    def test_a_learning_rate_that_is_too_low_is_to_blame(
        self, loss: np.ndarray, ratio: float, severity: str | None, title: str | None, tmp_path: Path
    ) -> None:
        numbers = {"loss": loss, "lr": np.full(200, 1e-7), "update_ratio": np.full(200, ratio)}
        found = of(marked(tmp_path, numbers), "BS310")
        assert [(each.severity, each.title) for each in found] == ([(severity, title)] if severity else [])
        if ratio < 1e-3:
            assert all("Raise the learning rate: try about " in each.fix for each in found)

    def test_the_script_that_was_run_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "orig_argv", ["python", "me.py", "--lr", "3"])
        monkeypatch.setattr(sys, "argv", ["me.py", "--lr", "3"])
        assert "with `backsight run me.py --lr 3`" in one(marked(tmp_path, {"loss": 5 + self.NOISE}), "BS310").fix
