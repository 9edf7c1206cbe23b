"""What a library's object keeps from one pass for the next is told by the program's path to it, and no tensor of the
program's own is taken for it."""

import pytest
from failures import evidence, failing

import backsight as bs

LIBRARY = """
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(6))
        self.trace = None

    def forward(self, x, mask):
        gain = torch.sigmoid(self.decay * mask)
        trace = x if self.trace is None else gain * self.trace + x
        self.trace = trace
        return trace.tanh()


class Kept:
    def __init__(self):
        self.keys = self.values = None


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Linear(6, 12)

    def forward(self, x, kept):
        keys, values = self.both(x).chunk(2, dim=-1)
        kept.keys = keys if kept.keys is None else torch.cat([kept.keys, keys])
        kept.values = values if kept.values is None else torch.cat([kept.values, values])
        return (x @ kept.keys.T).softmax(-1) @ kept.values


def following():
    kept = []

    def step(x, mask):
        kept[:] = [torch.sigmoid(x * mask) * kept[-1] if kept else x * mask]
        return kept[-1].tanh()

    return step
"""

TRAINING = """
from torch import nn
from {name} import Filter, Kept, Attention, following

encode, filters = nn.Linear(4, 6), nn.ModuleList([Filter(), Filter()])
attention, kept, follow = Attention(), Kept(), following()
optimizer = torch.optim.SGD([*encode.parameters(), *filters.parameters(), *attention.parameters()], lr=0.1)
for _ in range(3):
    mask = torch.ones(8, 6, dtype=torch.long)
    h = encode(torch.randn(8, 4))
    {call}
    loss = h.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def finding_of(tmp_path, monkeypatch):
    def finding(call, watched=True):
        name = f"stateful_{abs(hash((tmp_path, call, watched)))}"
        folder = tmp_path / "site-packages"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(LIBRARY)
        monkeypatch.syspath_prepend(folder)
        source = TRAINING.format(name=name, call=call)
        if not watched:
            return bs.explain(failing(source))
        with bs.watch(level="exact"):
            return bs.explain(failing(source))

    return finding


@pytest.mark.parametrize("watched", [True, False])
def test_a_module_of_a_library_is_named_by_the_path_to_it(finding_of, watched):
    finding = finding_of("for each in filters: h = each(h, mask)", watched)
    assert finding.title.startswith("trace of filters")
    detach, anew = finding.edits
    assert detach[0].code == "for each in filters: each.trace = each.trace.detach()"
    assert anew[0].code == "for each in filters: each.trace = None"
    assert detach[0].line == anew[0].line == 14


def test_so_is_another_object_of_a_library(finding_of):
    finding = finding_of("h = attention(h, kept)")
    assert finding.title.startswith("kept.keys")
    assert finding.edits[0][0].code == "kept.keys = kept.keys.detach(); kept.values = kept.values.detach()"


@pytest.mark.parametrize("watched", [True, False])
def test_where_nothing_leads_to_what_keeps_it_no_input_of_the_call_is_blamed(finding_of, watched):
    finding = finding_of("h = follow(h, mask)", watched)
    assert "mask" not in finding.title + evidence(finding) + finding.fix
    assert not finding.exact
