"""What a watch makes exact: the same explanations, where the text alone could not have told."""

import pytest
from failures import at, failing

import backsight as bs
from backsight.tracing import sites

SETUP = """
from torch import nn
torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)
"""


def watched(source, level="exact", **variables):
    with bs.watch(level=level):
        return bs.explain(failing(source, **variables))


class TestInPlace:
    @pytest.mark.parametrize(
        ("line", "name"),
        [
            ("h[:, 0] = 0", "h"),
            ("h.mul_(2)", "h"),
            ("torch.relu_(h)", "h"),
            ("h += 1", "h"),
            ("h.mul_(2); x.mul_(2)", "A tensor of shape 5×4"),
        ],
    )
    def test_where_only_the_line_is_known_the_name_is_the_one_that_it_changes(self, monkeypatch, line, name):
        monkeypatch.setattr(sites, "positions", lambda site: (site.line, site.line, -1, -1))  # as on Python 3.10
        source = f"""{SETUP}
def forward(x):
    h = torch.sigmoid(model(x))
    {line}  # here
    return h
forward(x).sum().backward()
"""
        finding = watched(source)
        assert finding.source == at(source)
        assert finding.title.startswith(f"{name} was modified in place")


class TestNoGradient:
    def test_without_source_the_line_is_known_all_the_same(self):
        source = f"{SETUP}h = model(x).detach()\nloss = h.sum()\nloss.backward()\n"
        with bs.watch(level="exact"):
            finding = bs.explain(failing(source, readable=False))
        assert finding.code == "BS203"
        assert finding.source == "train.py:6"


def test_a_watch_that_ended_before_is_not_asked():
    source = f"{SETUP}h = torch.exp(model(x))\nh.add_(1)\nh.sum().backward()\n"
    with bs.watch(level="exact"):
        error = failing(source)
    assert bs.explain(error).code == "BS202"
