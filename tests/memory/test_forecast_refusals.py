"""What `forecast` says of a step that it cannot imagine, or that is none."""

import pytest
import torch
from steps import CNN, GPT, MLP, mlp, words
from torch import nn
from torch.nn import functional as F

from backsight.memory import CannotForecast, NotAStep, forecast


def test_a_step_that_reads_a_value_is_refused_with_the_line_and_the_fix():
    model, batch = mlp()

    def step():
        loss = model(*batch)
        if loss.item() > 1:
            loss.backward()

    with pytest.raises(
        CannotForecast, match=r"reads tensor values.*at `if loss.item\(\) > 1:`, test_forecast_refusals.py:\d+"
    ):
        forecast(step)


def test_a_model_whose_shapes_depend_on_values_is_refused():
    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            return self.layer(x[x.nonzero()[:, 0]]).sum()

    with pytest.raises(CannotForecast, match="nonzero"):
        forecast(Sparse(), torch.randn(4, 8))


@torch.library.custom_op("backsight_tests::picky", mutates_args=())
def picky(x: torch.Tensor) -> torch.Tensor:
    """Takes more than its fake form does."""
    if len(x) > 6:
        raise ValueError("too many rows")
    return x.clone()


@picky.register_fake
def _(x):
    torch._check(len(x) < 3, lambda: "Expected fewer rows.")
    return torch.empty_like(x)


def test_an_operator_whose_fake_form_refuses_what_the_operator_takes_is_named_with_the_line(caplog):
    linear = nn.Linear(2, 2)

    def step(rows):
        loss = linear(torch.randn(rows, 2)).sum() + picky(torch.randn(rows, 2)).sum()
        loss.backward()

    forecast(lambda: step(2))
    with pytest.raises(
        CannotForecast, match=r"picky.*, but its fake implementation.*at `loss = linear.*Expected fewer rows"
    ):
        forecast(lambda: step(4))
    with pytest.raises(RuntimeError, match="Expected fewer rows") as raised:
        forecast(lambda: step(8))
    assert not isinstance(raised.value, CannotForecast), "the real operator refuses it too: the program is wrong"
    assert not caplog.records


def making():
    model, batch = mlp()

    def step():
        model(*batch).backward()

    return step


def test_a_step_may_return_a_function():
    def step():
        making()()
        return making

    assert forecast(step).peak


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda: (mlp()[0],), "needs a batch"),
        (lambda: (3,), "not a int"),
        (lambda: (lambda x: x,), r"<lambda>\(\) is called without arguments, but it needs `x`"),
        (lambda: (lambda: mlp()[0],), "Return a batch too"),
        (lambda: (lambda: 3,), "created no tensor"),
        (lambda: (making,), r"making returned a function and ran no backward.*: forecast\(making\(\)\)"),
        (lambda: (nn.Linear(8, 8), torch.randn(2, 4, 8)), r"cross_entropy\(output.flatten\(0, 1\), target.flatten"),
        (lambda: (lambda: 3, torch.randn(3)), "the model is a int"),
        (lambda: (nn.Linear(8, 8), torch.randn(2, 8)), r"tensors of shape \(2, 8\), but a step needs a scalar loss"),
        (
            lambda: (nn.LSTM(8, 8), torch.randn(2, 8)),
            r"loss=lambda output, target: torch.nn.functional.cross_entropy\(o",
        ),
        (
            lambda: (lambda x, /, y, *, z=3: x, torch.randn(3)),
            r"needs x, y\. If it .*: forecast\(lambda: step\(x, y\)\)",
        ),
        (lambda: (*mlp(), 3), "the optimizer is a int"),
        (lambda: (*mlp(), torch.optim.LBFGS), r"LBFGS.step\(\) takes a closure"),
        (lambda: (lambda: MLP(64, 64), mlp()[1], torch.optim.SGD(mlp()[0].parameters())), "Pass its class"),
        (lambda: (lambda: {"model": mlp()[0], "batches": 3},), "Unknown: batches"),
    ],
)
def test_what_is_no_step_is_refused_with_the_reason(arguments, said):
    with pytest.raises(NotAStep, match=said):
        forecast(*arguments())


@pytest.mark.parametrize(("option", "said"), [("release", "no optimizer"), ("checkpointing", "no model")])
def test_what_is_asked_of_a_step_that_shows_nothing_is_refused(option, said):
    def step():
        model, batch = mlp()
        model(*batch).backward()

    with pytest.raises(NotAStep, match=said):
        forecast(step, **{option: True})


def test_a_loss_needs_a_target():
    with pytest.raises(NotAStep, match="the batch is a pair"):
        forecast(CNN(), torch.randn(2, 3, 32, 32), loss=F.cross_entropy)


def test_checkpointing_names_modules_that_are_there():
    with pytest.raises(NotAStep, match=r"no module 'block.0' to checkpoint"):
        forecast(GPT(), words(), checkpointing="block.0")
    with pytest.raises(NotAStep, match="has no repeated block"):
        forecast(*mlp(), checkpointing=True)


@pytest.mark.parametrize("option", [{"dtype": "int"}, {"autocast": "bananas"}, {"device": "mps"}, {"steps": 0}])
def test_options_that_make_no_sense_are_refused(option):
    with pytest.raises(ValueError, match=r"floating-point|cuda|at least 1"):
        forecast(*mlp(), **option)


@pytest.mark.parametrize("as_a_model", [True, False])
def test_a_distribution_that_checks_its_arguments_is_forecast_as_if_they_were_valid(as_a_model, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.compile turns it off for good

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.spread = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, pair):
            x, action = pair
            return -torch.distributions.Normal(self.mean(x), self.spread(x).exp()).log_prob(action).mean()

    model, batch = Policy(), torch.randn(2, 32, 64)

    def step():
        model(batch).backward()

    said = forecast(model, batch) if as_a_model else forecast(step)
    assert said.peak > 2 * 64 * 64 * 4
    checked = torch.distributions.Normal(0.0, 1.0)
    with pytest.raises(ValueError, match="invalid values"):  # outside of a forecast they are checked as ever
        torch.distributions.Normal(0.0, torch.tensor(-1.0))
    assert checked.mean == 0


def test_the_refusal_of_a_model_that_was_given_does_not_ask_for_it():
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            out = self.layer(x).sum()
            return out if out > 0 else -out

    for given in ((Branching(), torch.randn(4, 8)), (lambda: (Branching(), torch.randn(4, 8)),)):
        with pytest.raises(CannotForecast, match=r"masks as indices\)\.$"):
            forecast(*given)
