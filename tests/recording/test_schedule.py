"""Which steps are recorded, and what the others cost: nothing that stays in the model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from trainings import names, rows, train

import backsight as bs
from backsight.recording.cost import Cost
from backsight.recording.schedule import FREE, SHARE, Pace, Schedule


@given(every=st.integers(1, 50), first=st.integers(0, 50), step=st.integers(0, 1000))
def test_the_step_that_is_due_is_the_next_that_is_recorded(every, first, step):
    schedule = Pace(Schedule(every, first), Cost())
    due = schedule.due(step)
    assert schedule(due)
    assert not any(schedule(skipped) for skipped in range(step, due))


def steps(path):
    return sorted({int(row["step"]) for row in rows(path)})


@given(every=st.integers(1, 50), first=st.integers(0, 50), step=st.integers(0, 1000))
def test_every_so_many_steps_and_all_of_the_first_ones(every, first, step):
    assert Pace(Schedule(every, first), Cost())(step) == (step < first or step % every == 0)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"every": 3}, [0, 3, 6]),
        ({"every": 4, "first": 2}, [0, 1, 4]),
        ({"every": lambda step: step in (1, 5)}, [1, 5]),
    ],
)
def test_the_steps_that_are_chosen_are_recorded_whole(net, run, how, expected):
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(net, optimizer, run, **how) as rec:
        train(net, optimizer, 8)
        assert rec.steps == 8
    assert [step for step in steps(run) if step < 8] == expected
    assert {row["kind"] for row in rows(run, steps=expected[0])} == {"input", "output", "weight", "grad", "state"}


def hooks_of(model):
    tables = torch.nn.modules.module
    found = [*tables._global_forward_pre_hooks, *tables._global_forward_hooks]
    return found + [p for p in model.parameters() if p._post_accumulate_grad_hooks]


def test_between_recorded_steps_no_hook_is_on_the_model(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run, every=2):
        assert hooks_of(net)
        train(net, optimizer, 1)
        assert not hooks_of(net)
        train(net, optimizer, 1)
        assert hooks_of(net)


def test_disarmed_nothing_is_recorded_and_steps_are_counted_on(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        train(net, optimizer, 2)
        rec.disarm()
        assert not hooks_of(net)
        train(net, optimizer, 2)
        rec.arm()
        train(net, optimizer, 1)
    assert steps(run) == [0, 1, 4]


def test_rearm_looks_at_once(run):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with bs.record(model, run=run, taps=("output", "weight", "grad")) as rec:
        model[0] = nn.Linear(2, 3)
        model.append(nn.Linear(3, 1))
        rec.rearm()
        model(torch.ones(1, 2)).sum().backward()
        rec.step()
    assert names(run, kind="output") == ["0.output", "1.output", "2.output", "output"]
    assert "2.weight" in names(run, kind="grad")
    assert [child["type"] for child in bs.open_run(run).tree[0]["children"]] == ["Linear", "ReLU", "Linear"]


def test_parameters_that_were_replaced_are_found_without_rearm(run):
    model = nn.Linear(2, 1, bias=False)
    with bs.record(model, run=run) as rec:
        model.weight = nn.Parameter(torch.full((1, 2), 5.0))
        model(torch.ones(1, 2)).sum().backward()
        rec.step()
    assert [row["mean"] for row in rows(run, tensor="weight")] == [5.0, 1.0]


def test_what_comes_into_a_model_later_is_recorded_without_rearm(run):
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    model[0].bias.requires_grad_(False)
    scale = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run=run):
        for step in range(4):
            if step == 1:
                model.append(nn.Linear(4, 4))
                optimizer.add_param_group({"params": model[2].parameters()})
            if step == 2:
                model[0].bias.requires_grad_(True)
                optimizer.add_param_group({"params": scale})
                model[1] = nn.Tanh()
            (model(torch.ones(1, 2)) * scale).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    def seen(name, kind):
        return [int(row["step"]) for row in rows(run, kind=kind) if row["tensor"] == name]

    assert seen("0.weight", "grad") == seen("0.output", "output") == [0, 1, 2, 3]
    assert seen("2.weight", "weight") == seen("2.weight", "grad") == seen("2.output", "output") == [1, 2, 3]
    assert seen("0.bias", "grad") == seen("scale", "weight") == [2, 3]
    assert seen("1.output", "output") == [0, 1, 2, 3]
    opened = bs.open_run(run)
    assert [child["type"] for child in opened.tree[0]["children"]] == ["Linear", "Tanh", "Linear"]
    changes = [(each.step, each.details) for each in opened.events if each.event == "model changed"]
    assert changes == [
        (1, {"came": ["2"], "went": [], "parameters": ["2.bias", "2.weight"]}),
        (2, {"came": ["1"], "went": ["1"], "parameters": ["0.bias"]}),
    ]


def test_a_predicate_that_raises_ends_the_recording_with_one_warning(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def every(step):
        if step == 2:
            raise KeyError("no such step")
        return True

    rec = bs.record(net, optimizer, run, every=every)
    with pytest.warns(bs.RecordingWarning, match="no such step") as warned:
        train(net, optimizer, 4)
    rec.close()
    assert len(warned) == 1
    assert steps(run) == [0, 1]


@pytest.mark.parametrize("every", ["2", 1.5, True, None])
def test_a_schedule_of_another_type_is_refused(net, run, every):
    with pytest.raises(TypeError, match=r'every must be a whole number, "auto" or a function of the step'):
        bs.record(net, run=run, every=every)


class Spent(Cost):
    """A cost of which a test says what it is, of a training that has lasted for so many seconds."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def elapsed(self):
        return self.seconds


def test_as_many_steps_as_their_share_of_the_time_allows_are_recorded():
    cost = Spent(0.0)
    pace, recorded = Pace(Schedule("auto"), cost), []
    for step in range(20_000):
        cost.seconds += 0.001
        if step >= pace.due(step) and pace(step):
            recorded.append(step)
            cost.spent, cost.seconds = cost.spent + 0.005, cost.seconds + 0.005
    assert recorded[:10] == list(range(10))
    assert cost.spent <= FREE + SHARE * cost.seconds + 0.005
    assert cost.spent > 0.5 * SHARE * cost.seconds and pace.every >= 32
    assert all(step % 32 == 0 for step in recorded[-50:])


def test_when_recording_becomes_cheap_more_steps_are_recorded_again():
    cost = Spent(10.0)
    pace = Pace(Schedule("auto"), cost)
    cost.spent = 100.0
    assert not any(pace(step) for step in range(0, 1024, 2)) and pace.every > 1
    cost.seconds = 1e5
    for step in range(0, 2**20, pace.every):
        pace(step)
    assert pace.every == 1


def test_a_run_tells_how_many_steps_it_was_allowed(net, run, monkeypatch):
    monkeypatch.setattr("backsight.recording.schedule.FREE", 0.0)
    monkeypatch.setattr("backsight.recording.schedule.SHARE", 0.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run, every="auto") as rec:
        train(net, optimizer, 8)
        every = rec.every
    told = [event.details["every"] for event in bs.open_run(run).events if event.event == "every"]
    assert bs.open_run(run).config["every"] == "auto" and told[-1] == every > 1


def test_a_schedule_of_no_steps_is_refused(net, run):
    with pytest.raises(ValueError, match=r"disarm\(\) records none"):
        bs.record(net, run=run, every=0)
    assert not run.exists()


def test_steps_that_are_not_recorded_are_counted_whenever_somebody_asks(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run, every=4) as rec:
        counted = []
        for step in range(7):
            rec.mark(batch=step)
            train(net, optimizer, 1)
            counted.append(rec.steps)
        rec.disarm()
        train(net, optimizer, 5)
        assert "step 12" in repr(rec)
        rec.arm()
        train(net, optimizer, 2)
        rec.step()  # the optimizer has just ended this one
        rec.step()
        train(net, optimizer, 3)
        assert rec.steps == 15
        rec.step()
    assert counted == [1, 2, 3, 4, 5, 6, 7]
    recorded = bs.open_run(run)
    assert recorded.steps.tolist() == [0, 4, 12]
    assert [mark.step for mark in recorded.marks] == list(range(7))
