"""What is judged parameter by parameter, part of a batch by part, and path of a gradient by path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import backsight as bs
from backsight.traces.difference import in_the_loss
from backsight.traces.growth import Point


class Block(nn.Module):
    def __init__(self, cut: bool = False, gate: str = "product", norm: str = "norm"):
        super().__init__()
        self.cut, self.gate, self.called = cut, gate, norm
        setattr(self, norm, nn.LayerNorm(8))
        self.up, self.down, self.drop = nn.Linear(8, 16), nn.Linear(16, 8), nn.Dropout(0.25)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.up(getattr(self, self.called)(x)))
        z = torch.sigmoid(h.detach() if self.cut else h)
        h = (1 - z) * h + z * h.square() if self.gate == "product" else h + z * (h.square() - h)
        return x + self.drop(self.down(h))


class Model(nn.Module):
    def __init__(self, again: str = "", **options):
        super().__init__()
        self.again, self.blocks, self.head = again, nn.ModuleList(Block(**options) for _ in range(2)), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=self.again == "kept") if self.again else (
                block(x))  # fmt: skip
        return self.head(x)


Difference = Callable[..., bs.Difference]


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(16, 8, generator=generator), torch.randint(0, 3, (16,), generator=generator)


@pytest.fixture
def compared(tmp_path: Path, batch) -> Difference:
    """Compare a training with one that is made otherwise: by its model, optimizer, parts of a batch, or loss."""

    def run(name: str, model: dict, groups=None, parts: int = 1, divided: bool = True, lost=None, drop: float = 0.0):
        torch.manual_seed(0)
        net = Model(**model)
        for block in net.blocks:
            block.drop.p = drop
        optimizer = torch.optim.AdamW(groups(net) if groups else net.parameters(), lr=0.01)
        (x, y), loss = batch, lost or F.cross_entropy
        with bs.trace(tmp_path / name):
            for some, labels in zip(x.chunk(parts), y.chunk(parts), strict=True):
                (loss(net(some), labels) / (parts if divided else 1)).backward()
            optimizer.step()
        return tmp_path / name

    def both(ours: dict, theirs: dict, **common) -> bs.Difference:
        sides = [{"model": {}, **common, **each} for each in (ours, theirs)]
        return bs.diff(run("a", **sides[0]), run("b", **sides[1]))

    return both


def decayed(but: str, first: bool = True):
    def groups(net: nn.Module) -> list[dict]:
        named = dict(net.named_parameters())
        found = [{"params": [p for n, p in named.items() if but not in n], "weight_decay": 0.1},
                 {"params": [p for n, p in named.items() if but in n], "weight_decay": 0.0}]  # fmt: skip
        return found if first else found[::-1]

    return groups


def test_a_norm_that_a_filter_of_names_misses_is_the_optimizers_though_all_else_differs_by_rounding(compared):
    ours, theirs = {"norm": "LayerNorm", "gate": "sum"}, {"norm": "norm"}
    difference = compared(
        {"model": ours, "groups": decayed("LayerNorm")}, {"model": theirs, "groups": decayed("LayerNorm")}
    )
    assert (difference.cls, difference.first.code) == ("semantics", "BS508"), difference.text()
    told = " ".join(str(difference).split())
    named = "net.blocks.0.LayerNorm.bias (net.blocks.0.norm.bias in B) and 3 more"
    assert f"`weight_decay` of {named} is 0 in A and 0.1 in B" in told


@pytest.mark.parametrize("gate", ["sum", "product"])
def test_groups_in_another_order_and_other_names_are_no_difference(compared, gate):
    theirs = {"model": {"norm": "norm", "gate": gate}, "groups": decayed("norm", first=False)}
    difference = compared({"model": {"norm": "LayerNorm"}, "groups": decayed("LayerNorm")}, theirs)
    assert difference.cls in ("same", "noise"), difference.text()


def test_a_weight_that_is_in_no_optimizer_is_said(compared):
    difference = compared({}, {"groups": lambda net: list(net.blocks.parameters())})
    assert difference.first.code == "BS508"
    assert "no optimizer of B holds net.head.bias and net.head.weight" in difference.first.title, difference.text()


def test_what_schedules_note_in_groups_is_no_hyperparameter(compared):
    def noted(net):
        return [{"params": list(net.parameters()), "max_lr": 5.0}]

    assert compared({}, {"groups": noted}).cls == "same"


def test_formulas_of_equal_value_are_rounding_and_no_mistake(compared):
    assert compared({}, {"model": {"gate": "sum"}}).cls == "noise"


@pytest.mark.parametrize(
    ("losses", "said"), [((1e-7, 2e-6), "too little to show in six digits"), ((1e-7, 3e-4), "visible from step 7 on")]
)
def test_rounding_is_said_to_be_visible_in_the_loss_or_not(compared, losses, said):
    difference = compared({}, {"model": {"gate": "sum"}})
    (step,) = difference.steps
    steps = [replace(step, step=7 * k, points=(Point(7 * k, "loss", "loss", apart),)) for k, apart in enumerate(losses)]
    (note,) = in_the_loss(replace(difference, steps=tuple(steps)))
    assert f"differ by at most a relative {max(losses):.1e}" in note and said in note


@pytest.mark.parametrize("gate", ["product", "sum"])
def test_a_tensor_that_one_program_detaches_is_named(compared, gate):
    difference = compared({"model": {"gate": gate}}, {"model": {"cut": True}})
    assert (difference.cls, difference.first.code) == ("semantics", "BS507"), difference.text()
    assert "z = torch.sigmoid(h.detach() if self.cut else h)" in difference.origin.origin.places[1].text
    assert "no gradient passes through what B detaches here" in difference.origin.reasons[0]


def test_a_loss_that_is_detached_to_be_logged_is_no_difference(compared):
    logged = []

    def lost(logits: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(logits, labels)
        logged.append(loss.detach() * 2)
        return loss

    assert compared({}, {"lost": lost}).cls == "same"


def test_micro_batches_are_the_batch_up_to_rounding(compared):
    assert compared({}, {"parts": 4}).cls == "noise"


def test_micro_batches_whose_gradients_are_added_up_are_said_to_be(compared):
    difference = compared({}, {"parts": 4, "divided": False})
    assert difference.first.code == "BS507"
    assert "every gradient of B is that of A times 4; B adds up those of 4 parts of the batch" in (
        difference.origin.reasons
    )
    assert difference.first.fix == "If the loss is a mean, divide that of each part by 4 before its backward()."


def test_micro_batches_of_which_each_is_averaged_by_itself_differ_in_the_loss_and_not_in_the_data(compared, batch):
    batch[1][:7] = -100
    difference = compared({}, {"parts": 2})
    assert (difference.first.code, difference.origin.origin.phase) == ("BS501", "forward"), difference.text()
    assert difference.origin.origin.a.short == "nll_loss_forward"


def test_a_checkpoint_that_draws_other_numbers_when_it_runs_again_is_named(compared):
    difference = compared({"drop": 0.25}, {"model": {"again": "lost"}, "drop": 0.25})
    assert (difference.cls, difference.first.code) == ("semantics", "BS507"), difference.text()
    assert "draws other random numbers than in its forward pass" in difference.origin.reasons[0]
    assert "self.drop" in difference.origin.origin.places[1].text


def test_a_checkpoint_that_draws_the_same_numbers_is_no_difference(compared):
    assert compared({"drop": 0.25}, {"model": {"again": "kept"}, "drop": 0.25}).cls in ("same", "noise")


def jobs(restored: bool, until: int = 0):
    """Train six steps, in one job or in two in one process, of which the second starts from what the first saved."""

    def job(first: int, last: int, saved=None):
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        if saved is not None:
            model.load_state_dict(saved[0])
            if restored:
                optimizer.load_state_dict(saved[1])
        for step in range(first, last):
            optimizer.zero_grad()
            model(torch.randn(4, 8, generator=torch.Generator().manual_seed(step))).square().mean().backward()
            optimizer.step()
        return {name: value.clone() for name, value in model.state_dict().items()}, optimizer.state_dict()

    torch.manual_seed(0)
    saved = job(0, until or 6)
    if until:
        job(until, 6, saved)


@pytest.mark.parametrize("restored", [True, False])
def test_a_model_that_is_resumed_in_the_same_process_is_compared_with_the_one_in_use(tmp_path, restored):
    for name, until in (("a", 0), ("b", 3)):
        with bs.trace(tmp_path / name, steps=(2, 3)):
            jobs(restored, until)
    difference = bs.diff(tmp_path / "a", tmp_path / "b")
    assert difference.cls == ("same" if restored else "semantics"), difference.text()
    if not restored:
        assert (difference.first.code, difference.origin.origin.step) == ("BS508", 3)
        assert (
            "the optimizer of A has state of 4 parameters (exp_avg, exp_avg_sq, step)" in difference.origin.reasons[0]
        )
        assert "optimizer.step()" in difference.origin.origin.places[1].text
