"""A parameter that only one program's optimizer holds: that is the cause, and what follows from it is not told."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import backsight as bs


def trained(path, given):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(given(model), 0.1)
    with bs.trace(path, steps=(0, 1), model=model):
        for _ in range(3):
            loss = model(torch.ones(3, 4)).square().mean()
            model.zero_grad()
            loss.backward()
            optimizer.step()
    return path


def every(model):
    return model.parameters()


def body(model):
    return model[0].parameters()


@pytest.fixture
def found(tmp_path):
    return bs.diff(trained(tmp_path / "a", body), trained(tmp_path / "b", every))


def test_the_optimizer_that_lacks_parameters_is_the_cause_and_the_fix(found):
    first = found.first
    assert (first.code, first.title) == (
        "BS508",
        "The updates diverge in step 0: no optimizer of A holds model.2.bias and model.2.weight.",
    )
    assert first.fix == "Give A's optimizer the parameters model[2].bias and model[2].weight."
    assert "runs in A." not in str(first)
    assert "optimizer.step()" in str(first)


def test_what_the_next_step_computes_with_those_is_no_finding_of_its_own(found):
    assert [each.code for each in found.findings if each.severity != "note"] == ["BS508"]


def test_the_other_way_round_the_other_program_is_named(tmp_path):
    found = bs.diff(trained(tmp_path / "a", every), trained(tmp_path / "b", body))
    assert found.first.fix == "Give B's optimizer the parameters model[2].bias and model[2].weight."


def test_programs_whose_optimizers_hold_the_same_agree(tmp_path):
    assert not bs.diff(trained(tmp_path / "a", every), trained(tmp_path / "b", every)).findings
