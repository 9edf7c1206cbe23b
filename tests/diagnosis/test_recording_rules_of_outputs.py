"""BS304, BS305, BS308: outputs that are zero, saturated, or the same for everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from audits import codes, of, one
from recorded import batch, grave, layers, train
from torch import nn


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class TestDeadOutput:
    def test_a_relu_that_is_given_only_negative_numbers_is_named_with_them(self, tmp_path: Path) -> None:
        model = layers(2)
        nn.init.constant_(model[2].bias, -10)
        finding = one(train(tmp_path / "run", model), "BS304")
        assert (finding.severity, finding.title) == ("warning", "3 (ReLU) has returned only zeros since step 0.")
        assert finding.evidence[0].startswith(
            "All 1,024 elements of 3.output were 0 from step 0 to the end (20 recorded steps), because its whole "
            "input is negative (-"
        )
        assert finding.fix.startswith("ReLU units die when")

    def test_the_step_is_named_from_which_on_it_is_dead(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            if step == 7:
                nn.init.constant_(model[0].bias, -100)  # as one step that was far too large would
            x, y = batch()
            return (model(x) - y).square().mean()

        assert (
            one(train(tmp_path / "run", model, loss), "BS304").title == "1 (ReLU) has returned only zeros since step 7."
        )

    def test_a_layer_of_which_a_unit_comes_up_in_a_batch_now_and_then_is_dead(self, tmp_path: Path) -> None:
        model = layers(1, width=64)
        nn.init.constant_(model[0].bias, -10)
        nn.init.constant_(model[0].weight[:, 0], -0.1)
        nn.init.constant_(model[0].weight[3, 0], 0.1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            if step % 15 == 4:
                x[0, 0] = 120
            return (model(x) - y).square().mean()

        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        finding = one(train(tmp_path / "run", model, loss, optimizer, steps=40), "BS304")
        assert finding.title == "1 (ReLU) has returned almost only zeros since step 0."
        assert "were 0 from step 0 to the end (40 recorded steps), because its whole input is" in finding.evidence[0]
        assert finding.evidence[0].endswith(" In 3 of these steps, a few were not.")
        assert finding.evidence[1] == "Layers before it get hardly any gradient through it."

    def test_a_relu_that_is_no_module_is_found_by_the_module_around_it(self, tmp_path: Path) -> None:
        class Block(nn.Module):
            def __init__(self, bias: float) -> None:
                super().__init__()
                self.fc = nn.Linear(8, 8)
                nn.init.constant_(self.fc.bias, bias)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return nn.functional.relu(self.fc(x))

        model = nn.Sequential(nn.Sequential(Block(1), Block(-100)), nn.Dropout(0.1), nn.Linear(8, 1))
        finding = one(train(tmp_path / "run", model), "BS304")
        assert finding.title == "0.1 (Block) has returned only zeros since step 0."
        assert finding.evidence[2] == (
            "The modules inside it return other numbers: it is a function that it calls itself, such as F.relu."
        )
        assert finding.fix.startswith("ReLU units die when")

    def test_modules_that_only_pass_zeros_on_are_not_named(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 1))
        nn.init.constant_(model[0].bias, -10)
        assert len(of(train(tmp_path / "run", model), "BS304")) == 1

    def test_a_layer_that_forgot_its_weights_is_told_to_look_at_them(self, tmp_path: Path) -> None:
        model = layers(1)
        nn.init.zeros_(model[0].weight)
        nn.init.zeros_(model[0].bias)
        finding = one(train(tmp_path / "run", model), "BS304")
        assert finding.title == "0 (Linear) has returned only zeros since step 0."
        assert finding.fix.startswith("Check how its weights are initialized")

    def test_an_output_that_comes_back_to_life_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x * (0 if step < 15 else 1) - (100 if step < 15 else 0)) - y).square().mean()

        nn.init.constant_(model[0].weight, 0.1)
        assert not grave(train(tmp_path / "run", model, loss))

    def test_a_layer_of_zeros_that_is_trained_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1)
        nn.init.zeros_(model[2].weight)
        nn.init.zeros_(model[2].bias)
        assert not train(tmp_path / "run", model).findings

    def test_sparse_outputs_are_in_order(self, tmp_path: Path) -> None:
        model = layers(1, width=200)
        nn.init.constant_(model[0].bias, -1.5)
        assert not train(tmp_path / "run", model).findings

    def test_one_dead_call_of_several_is_in_order(self, tmp_path: Path) -> None:
        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear, self.relu = nn.Linear(8, 1), nn.ReLU()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.relu(self.linear(x)) + self.relu(-x.abs() - 1).sum(1, keepdim=True)

        assert not train(tmp_path / "run", Twice()).findings

    def test_nothing_given_and_nothing_returned_is_in_order(self, tmp_path: Path) -> None:
        """A term that is only sometimes there: its module is given no rows at all."""

        class Sometimes(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.usual, self.rare = nn.Linear(8, 1), nn.Linear(8, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.usual(x).sum() + self.rare(x[:0]).sum()

        model = Sometimes()
        assert not grave(train(tmp_path / "run", model, lambda step: model(batch()[0]).square() / 1000))


class TestSaturated:
    def test_inputs_that_nobody_scaled_are_found(self, tmp_path: Path) -> None:
        model = layers(1, nn.Tanh)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x * 1000) - y).square().mean()

        finding = one(train(tmp_path / "run", model, loss), "BS305")
        assert (finding.severity, finding.title) == ("warning", "1 (Tanh) has been saturated since step 0.")
        assert finding.evidence[0].startswith(
            "Its 1,024 outputs lie between -1 and 1, where it is flat: its mean slope was "
        )
        assert finding.evidence[0].endswith(
            "of the maximum in the last step, and below 1% in each of the last 20 recorded steps."
        )

    def test_the_mean_slope_is_that_of_the_derivative(self, tmp_path: Path) -> None:
        for activation, steepest in ((nn.Tanh(), 1.0), (nn.Sigmoid(), 0.25)):
            model = nn.Sequential(nn.Linear(8, 64), activation, nn.Linear(64, 1))
            nn.init.normal_(model[0].weight, std=100)
            x = batch()[0]
            finding = one(
                train(
                    tmp_path / type(activation).__name__,
                    model,
                    lambda step, model=model, x=x: model(x).square().mean(),
                    torch.optim.SGD(model.parameters(), lr=0.0),
                ),
                "BS305",
            )
            given = model[0](x).detach().requires_grad_()
            (slope,) = torch.autograd.grad(activation(given).sum(), given)
            assert f"mean slope was {slope.mean() / steepest:.2%} of the maximum" in finding.evidence[0]

    def test_a_sigmoid_stuck_at_one_is_one_finding(self, tmp_path: Path) -> None:
        model = layers(1, nn.Sigmoid)
        nn.init.constant_(model[0].bias, 100)
        report = train(tmp_path / "run", model)
        assert codes(report) == ["BS305", "BS306"]
        assert "outputs are all 1, where it is flat" in one(report, "BS305").evidence[0]

    def test_a_classifier_may_be_sure_of_itself(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
        nn.init.constant_(model[0].weight, 1000)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return nn.functional.binary_cross_entropy(model(x), (y > 0).float())

        assert "BS305" not in codes(train(tmp_path / "run", model, loss))

    def test_a_classifier_with_an_unused_head_may_be_sure_of_itself_too(self, tmp_path: Path) -> None:
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear, self.sigmoid, self.unused = nn.Linear(8, 1), nn.Sigmoid(), nn.Linear(1, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.sigmoid(self.linear(x))

        model = Model()
        nn.init.constant_(model.linear.weight, 1000)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return nn.functional.binary_cross_entropy(model(x), (y > 0).float())

        assert "BS305" not in codes(train(tmp_path / "run", model, loss))

    def test_a_tanh_that_is_used_well_is_in_order(self, tmp_path: Path) -> None:
        model = layers(1, nn.Tanh)
        nn.init.normal_(model[0].weight, std=1.0)  # a third of it beyond 0.95
        assert not train(tmp_path / "run", model).findings


class TestConstantOutput:
    def test_a_collapsed_regression_is_found(self, tmp_path: Path) -> None:
        model = layers(1)
        nn.init.zeros_(model[2].weight)
        nn.init.constant_(model[2].bias, 0.5)
        model[2].requires_grad_(False)
        finding = one(train(tmp_path / "run", model), "BS308")
        assert (finding.severity, finding.title) == (
            "warning",
            "2 (Linear) has returned the same number everywhere since step 0.",
        )
        assert finding.evidence[0].startswith(
            "All 32 elements of 2.output were equal in each of the last 20 recorded steps (0.5 in the last), "
            "although its input ranged from "
        )

    def test_a_mask_that_is_the_same_for_everything_is_in_order(self, tmp_path: Path) -> None:
        class Mask(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.full_like(x, 0.5)

        class Masked(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer, self.mask = nn.Linear(8, 1), Mask()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                made: torch.Tensor = self.layer(x * self.mask(x))
                return made

        assert "BS308" not in codes(train(tmp_path / "run", Masked()))

    def test_constants_for_constants_are_in_order(self, tmp_path: Path) -> None:
        """A module that is given the same everywhere, or indices only, cannot but answer with the same."""

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body, self.gate, self.mask = nn.Linear(8, 1), nn.Sigmoid(), Mask()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.body(x) * self.gate(torch.full((len(x), 1), 3.0)) * self.mask(torch.arange(len(x)))

        class Mask(nn.Module):
            def forward(self, positions: torch.Tensor) -> torch.Tensor:
                return torch.ones_like(positions, dtype=torch.float32)[:, None]

        assert not train(tmp_path / "run", Model()).findings

    def test_outputs_that_hardly_differ_are_in_order(self, tmp_path: Path) -> None:
        model = layers(1)
        model[2].weight.data *= 1e-3
        assert not train(tmp_path / "run", model).findings

    def test_one_constant_output_of_several_is_in_order(self, tmp_path: Path) -> None:
        """As the weight of the one best expert, when the weights are made to add up to 1."""

        class Router(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scores = nn.Parameter(torch.randn(8, 4))

            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                scores = x @ self.scores
                weight, _ = scores.softmax(1).topk(1)
                return scores, weight / weight.sum(1, keepdim=True)

        router = Router()
        assert not train(
            tmp_path / "run", router, lambda step: sum(each.square().mean() for each in router(batch()[0]))
        ).findings


class Calling(nn.Module):
    """Calls its activation by hand; what `around` makes of the result goes into the last layer."""

    def __init__(self, function: Callable[..., torch.Tensor], around: Callable[..., torch.Tensor] = lambda h: h):
        super().__init__()
        self.function, self.around = function, around
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.around(self.function(self.first(x))))


@pytest.mark.parametrize(
    ("model", "scale", "expected"),
    [
        (Calling(torch.tanh), 1e4, "tanh"),
        (Calling(torch.sigmoid), 1e4, "sigmoid"),
        (Calling(torch.tanh), 1, None),
        (Calling(torch.sigmoid), 1, None),
        (Calling(torch.relu), 1, None),
        (Calling(lambda h: (h > 0).float() + 0 * h), 1e4, None),  # at the bounds, and not by a sigmoid
        (Calling(torch.sigmoid, lambda h: h * 0.5), 1e4, None),
    ],
)
def test_a_function_that_is_called_by_hand_is_saturated_too(
    model: Calling, scale: float, expected: str | None, tmp_path: Path
) -> None:
    def loss(step: int) -> torch.Tensor:
        x, y = batch()
        return (model(x * scale) - y).square().mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    found = of(train(tmp_path / "run", model, loss, optimizer), "BS305")
    assert [each.title for each in found] == (
        [f"The {expected} before last (Linear) has been saturated since step 0."] if expected else []
    )
