"""The user's own metrics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from trainings import rows, train

import backsight as bs


@pytest.fixture
def constant():
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, 3.0)
    return model


def once(model, run, kind, metric, **more):
    """Record one step with a metric."""
    with bs.record(model, run=run, **more) as rec:
        rec.metric(kind)(metric)
        model(torch.ones(1, 2)).sum().backward()
        rec.step()


@pytest.mark.parametrize("kind", ["input", "output", "weight", "grad", "output_grad"])
def test_a_metric_is_applied_to_every_tensor_of_its_kind(constant, run, kind):
    def total(tensor):
        return tensor.sum()

    once(constant, run, kind, total, taps=("input", "output", "weight", "grad", "output_grad"))
    found = {row["kind"]: row["total"] for row in rows(run)}
    expected = {"input": 2.0, "output": 6.0, "weight": 6.0, "grad": 2.0, "output_grad": 1.0}
    assert found.pop(kind) == expected[kind]
    assert np.isnan(list(found.values())).all()


def test_a_metric_of_the_state_of_an_optimizer(constant, run):
    optimizer = torch.optim.SGD(constant.parameters(), lr=0.1, momentum=0.9)
    with bs.record(constant, optimizer, run) as rec:

        @rec.metric("state")
        def largest(tensor):
            return tensor.max()

        train(constant, optimizer, 1, width=2, loss=lambda out: out.sum())
    (row,) = rows(run, kind="state")
    assert row["largest"] == row["max"]


def test_a_metric_may_say_several_numbers_and_short_lists(constant, run):
    def shape_of(tensor):
        return {"twice": float(tensor.sum() * 2), "ends": [tensor.min(), 1], "row": tensor[0], "flag": True}

    once(constant, run, "weight", shape_of)
    (row,) = rows(run, tensor="weight", kind="weight")
    found = {name: row[name] for name in ("twice", "ends[0]", "ends[1]", "row[0]", "row[1]", "flag")}
    assert found == {"twice": 12.0, "ends[0]": 3.0, "ends[1]": 1.0, "row[0]": 3.0, "row[1]": 3.0, "flag": 1.0}


def test_a_tensor_that_a_metric_returns_is_what_it_was_then(constant, run):
    once(constant, run, "weight", first := lambda weight: weight[0, 0])
    with torch.no_grad():
        constant.weight.zero_()
    (row,) = rows(run, tensor="weight", kind="weight")
    assert row[first.__name__] == 3.0


def test_a_metric_of_the_same_name_replaces_the_one_before(constant, run):
    with bs.record(constant, run=run) as rec:
        for value in (1.0, 2.0):

            @rec.metric("weight")
            def answer(weight, value=value):
                return value

        constant(torch.ones(1, 2))
        rec.step()
    assert [row["answer"] for row in rows(run, kind="weight")] == [2.0]


def test_a_metric_leaves_no_trace_in_autograd_or_in_the_calls(constant, run):
    def through_the_model(tensor):
        assert not tensor.requires_grad
        return constant(torch.zeros(1, 2)).sum()

    once(constant, run, "input", through_the_model)
    assert [row["call"] for row in rows(run, tensor="output")] == [0]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("text", "short lists of them, not str"),
        ({"deep": {"deeper": 1}}, "short lists of them, not dict"),
        ({"text": ["a"]}, "not a list of str"),
        ({1: 2.0}, "with strings, not int"),
        (None, "short lists of them, not NoneType"),
        (list(range(1000)), "at most 64 numbers"),
        (torch.ones(3, 3), "at most 64 numbers"),
        (torch.ones(1000), "at most 64 numbers"),
        (torch.tensor(1j), "complex"),
    ],
)
def test_what_is_no_number_drops_the_metric_with_one_warning(constant, run, said, reason):
    with pytest.warns(bs.RecordingWarning, match=reason) as warned:
        once(constant, run, "weight", lambda weight: said)
    assert len(warned) == 1
    assert len(rows(run, kind="weight")) == 1


def test_a_metric_that_raises_is_dropped_and_the_others_stay(constant, run):
    asked = []

    def broken(tensor):
        asked.append(1)
        raise ZeroDivisionError("of the user's")

    with bs.record(constant, run=run) as rec:
        rec.metric("weight")(broken)
        rec.metric("weight")(sound := lambda tensor: 1.0)
        with pytest.warns(bs.RecordingWarning, match="'broken' for 'weight' failed at weight and is dropped") as warned:
            for _ in range(3):
                constant(torch.ones(1, 2))
                rec.step()
    assert (len(asked), len(warned)) == (1, 1)
    assert [row[sound.__name__] for row in rows(run, kind="weight")] == [1.0] * 3


def test_a_metric_for_no_kind_of_tensor_is_refused(constant, run):
    with (
        bs.record(constant, run=run) as rec,
        pytest.raises(ValueError, match="no kind of tensor 'wieght'; choose from"),
    ):
        rec.metric("wieght")
