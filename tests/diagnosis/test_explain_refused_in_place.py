"""BS205 and BS209: in-place changes that autograd refuses at once, of leaves and of views."""

from __future__ import annotations

import pytest
import torch
from failures import failing

import backsight as bs


class TestLeaves:
    def test_without_source_nothing_is_guessed(self):
        finding = bs.explain(failing("w = torch.ones(3, requires_grad=True)\nw += 1\n", readable=False))
        assert finding.title == "A leaf that requires grad was modified in place while autograd was recording."
        assert finding.source == "train.py:2"
        assert not finding.exact


VIEWS = """
from torch import nn
import torch.nn.functional as F
def gated(act=nn.ReLU(inplace=True)):
    h = nn.Linear(4, 4)(torch.randn(2, 4))
    a, b = h.chunk(2, dim=1)
    {change}
gated()
"""


def test_a_message_without_traceback_is_explained_too():
    error = failing(VIEWS.format(change="a += 1")).with_traceback(None)
    finding = bs.explain(error)
    assert finding.title == "A view made by split was modified in place, which autograd cannot follow."
    assert not finding.exact


@pytest.mark.parametrize("view", ["a", "b"])
def test_asking_for_the_history_of_a_lost_view_is_what_raises(view):
    """The reason why these explanations are careful with such views."""
    x = torch.randn(4, requires_grad=True) * 2
    views = dict(zip("ab", x.chunk(2), strict=True))
    x += 1
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        views[view].grad_fn
