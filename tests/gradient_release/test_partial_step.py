"""What the groups of an optimizer hold while some of its parameters are stepped."""

from __future__ import annotations

import pytest
import torch

from backsight.gradient_release.partial_step import PartialStep


def looking(groups, held):
    """Return an optimizer that adds to `held` what its groups hold at each step."""

    class Looking(torch.optim.Optimizer):
        def step(self, closure=None):
            held.append([list(group["params"]) for group in self.param_groups])

    return Looking(groups, {})


@pytest.fixture
def weights():
    made = [torch.nn.Parameter(torch.ones(1)) for _ in range(4)]
    for each in made:
        each.grad = torch.ones(1)
    return made


def places(held, weights):
    """Each parameter as its number, an empty one as None."""
    number = {id(each): k for k, each in enumerate(weights)}
    return [[number.get(id(each)) for each in params] for params in held]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("narrow", [[0, 2], [3]]), ("positions", [[0, None, 2], [3]])],
)
def test_a_group_holds_its_parameters_in_its_own_order_and_all_of_them_again_after(weights, layout, expected):
    held = []
    optimizer = looking([{"params": weights[:3]}, {"params": weights[3:]}], held)
    PartialStep(optimizer, layout).step([weights[3], weights[2], weights[0]])  # as gradients arrive
    assert places(held[0], weights) == expected
    assert places([group["params"] for group in optimizer.param_groups], weights) == [[0, 1, 2], [3]]
