"""What an optimizer counts once a step is counted once, however many partial steps there are."""

from __future__ import annotations

import pytest
import torch

from backsight.gradient_release import CoupledOptimizer
from backsight.gradient_release.per_step_globals import PerStepGlobals


@pytest.fixture
def optimizer():
    """An optimizer of two groups, each with a counter."""
    groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "k": 0} for _ in range(2)]
    return torch.optim.SGD(groups, lr=0.1)


def counters(optimizer):
    return [group["k"] for group in optimizer.param_groups]


def partial_step(kept, optimizer, group, k):
    kept.hold()
    optimizer.param_groups[group]["k"] = k
    kept.release([group])


def test_a_partial_step_begins_with_what_was_before_and_the_end_has_what_each_group_made_of_it(optimizer):
    kept = PerStepGlobals(optimizer)
    for group in (0, 1, 0):
        partial_step(kept, optimizer, group, 1)
        assert counters(optimizer) == [0, 0]
    kept.finish()
    assert counters(optimizer) == [1, 1]


def test_what_the_optimizers_own_step_has_counted_stays(optimizer):
    kept = PerStepGlobals(optimizer)
    partial_step(kept, optimizer, 0, 1)
    partial_step(kept, optimizer, 1, 1)
    optimizer.param_groups[0]["k"] = 7  # its own step, to which nothing of the second group was left
    kept.finish()
    assert counters(optimizer) == [7, 1]


def test_a_step_that_was_abandoned_leaves_nothing(optimizer):
    kept = PerStepGlobals(optimizer)
    partial_step(kept, optimizer, 0, 1)
    kept.abandon()
    kept.finish()
    assert counters(optimizer) == [0, 0]


def test_partial_steps_that_make_different_things_of_it_are_refused(optimizer):
    kept = PerStepGlobals(optimizer)
    partial_step(kept, optimizer, 0, 1)
    with pytest.raises(CoupledOptimizer, match="computes its 'k' from the gradients of all parameters together"):
        partial_step(kept, optimizer, 0, 2)
