"""What a watch makes exact: the same explanations, where the text alone could not have told."""

import pytest
from columns import needs_columns
from failures import at, evidence, failing

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


class TestSecondBackward:
    HELD = f"""{SETUP}
cache = {{}}
def encoded():
    if "codes" not in cache:
        cache["codes"] = torch.tanh(model(x))  # here
    return cache["codes"]
for _ in range(2):
    loss = head(encoded()).sum()
    loss.backward()
"""

    @pytest.mark.parametrize("level", ["lines", "exact"])
    def test_a_cached_result_is_named_with_the_line_that_made_it(self, level):
        finding = watched(self.HELD, level)
        assert finding.title == "cache['codes'] keeps a result of an earlier step, whose graph backward() freed."
        assert finding.source == at(self.HELD)
        assert finding.exact
        assert [str(line).partition("\n")[0] for line in finding.evidence] == [
            'train.py:10  cache["codes"] = torch.tanh(model(x))  # here'.removesuffix("  # here"),
            "train.py:13  loss = head(encoded()).sum()",
            "train.py:14  loss.backward()",
        ]
        assert finding.fix.startswith(
            "Recompute torch.tanh(model(x)) in each step, because the parameters it depends on are trained: remove "
            "line 9,"
        )

    def test_a_cache_for_each_stream_is_carried_by_its_element(self):
        source = f"""{SETUP}
def decode(x, cache):
    keys = model(x) if cache is None else torch.cat([cache["k"], model(x)])
    return torch.tanh(keys).sum(), {{"k": keys[-8:]}}
caches = [None, None]
for step in range(3):
    for stream in range(2):
        loss, caches[stream] = decode(x, caches[stream])  # here
        loss.backward()
"""
        finding = watched(source, "exact")
        assert finding.title == (
            "caches[stream], a tensor of shape 8×4, carries the graph of one iteration into the next, and backward() "
            "has freed that graph."
        )
        assert finding.source == at(source)
        assert not finding.exact
        assert finding.fix.startswith(
            "Detach after each step: caches[stream] = {key: h.detach() for key, h in caches[stream].items()}. "
        )

    def test_a_backward_that_ended_before_the_graph_began_has_not_freed_it(self):
        source = f"""{SETUP}
def regularize(features):
    features.mean().backward()  # here
for again in (False, True):
    h = torch.tanh(model(x))
    if again:
        regularize(h)
    head(h).sum().backward()
"""
        assert f"{at(source)}  features.mean().backward()\n    freed that graph." in evidence(watched(source))

    @pytest.mark.parametrize(("condition", "loop"), [("again", "for again in (False, True):"), ("True", "if True:")])
    def test_what_the_same_pass_has_made_is_not_said_to_need_computing_in_each_iteration(self, condition, loop):
        source = f"""{SETUP}
def regularize(features):
    features.mean().backward()
{loop}
    h = torch.tanh(model(x))
    if {condition}:
        regularize(h)
    head(h).sum().backward()
"""
        assert watched(source).fix == (
            "If line 12 should not train what computes h, write regularize(h.detach()). If it should, add the losses "
            "and call backward once."
        )

    def test_without_a_watch_nothing_is_claimed(self):
        finding = bs.explain(failing(self.HELD))
        assert not finding.exact

    def test_what_a_list_keeps_is_told_with_the_line_that_puts_it_there(self):
        source = f"""{SETUP}
memory = []
def step():
    h = model(x)
    loss = head(sum(memory, h)).square().sum()
    memory.append(h)  # here
    loss.backward()
for _ in range(2):
    step()
"""
        finding = watched(source)
        assert finding.source == at(source)
        assert finding.fix == (
            "If memory should hold the results of one step only, empty it after each step: put `memory.clear()` below "
            "line 12. If it should keep older ones, put them into it detached: on line 11, write "
            "`memory.append(h.detach())`."
        )

    def test_an_item_that_is_read_and_assigned(self):
        source = f"""{SETUP}
state = {{"h": torch.zeros(5, 4)}}
for _ in range(2):
    state["h"] = torch.tanh(model(x + state["h"]))  # here
    head(state["h"]).sum().backward()
"""
        finding = watched(source)
        assert finding.title.startswith(
            'state["h"], a tensor of shape 5×4, carries the graph of one iteration into the next'
        )
        assert finding.source == at(source)

    def test_a_loss_that_was_computed_elsewhere_and_only_once(self):
        finding = watched(f"{SETUP}exec('loss = head(model(x)).square().sum()')\nfor _ in range(2): loss.backward()\n")
        assert finding.code == "BS201"
        assert finding.exact

    def test_parts_that_an_earlier_backward_did_not_need_are_not_blamed_for_sure(self):
        source = f"""{SETUP}
state, table = {{}}, {{}}
def step(first):
    state["h"] = model(x + (0 if first else state["h"]))
    if first:
        table["t"] = torch.exp(head(x))
        head(state["h"]).square().sum().backward()
    else:
        (head(state["h"]) * table["t"]).square().sum().backward()
step(True)
step(False)
"""
        finding = watched(source)
        assert finding.code == "BS201"
        assert not finding.exact


class TestInPlace:
    def test_in_a_function_that_has_returned_and_calls_it_otherwise(self):
        source = f"""{SETUP}
def clip(values):
    with torch.no_grad():
        for part in values.unbind(0):
            part.clamp_(0, 1)  # here

def loss_of(x):
    h = torch.exp(model(x))
    loss = head(h).sum()
    clip(h)
    return loss

loss_of(x).backward()
"""
        finding = watched(source)
        assert finding.code == "BS202"
        assert finding.source == at(source)
        assert "modifies part in place, 5 times; clip was called at line 15." in evidence(finding)
        assert finding.exact

    def test_by_way_of_a_librarys_function(self):
        source = f"""{SETUP}
loss = head(model(x)).sum()
nn.utils.vector_to_parameters(torch.zeros(20), model.parameters())
torch.nn.init.zeros_(head.weight)  # here
loss.backward()
"""
        finding = watched(source)
        assert finding.title == "head.weight was modified in place after a matrix product had saved it for backward."
        assert finding.source == at(source)
        assert finding.fix.startswith("Move line 9, `torch.nn.init.zeros_(head.weight)`, below ")

    def test_what_was_read_from_the_text_and_seen_is_exact(self):
        source = f"""{SETUP}
def forward(x):
    h = torch.sigmoid(model(x))
    h += 1  # here
    return h
forward(x).sum().backward()
"""
        read, seen = bs.explain(failing(source)), watched(source)
        assert (read.title, read.source, read.fix) == (seen.title, seen.source, seen.fix)
        assert not read.exact
        assert seen.exact
        assert [each.certainty for each in seen.evidence] == ["seen", "seen", "held"]
        assert [each.certainty for each in read.evidence] == ["read", "read", "held"]

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
    @needs_columns
    def test_a_cast_that_the_text_does_not_lead_to(self):
        source = f"""{SETUP}
def look_up(x):
    offset = model(x).abs().sum(1)
    return torch.linspace(0, 1, 100)[offset.long()]  # here
look_up(x).sum().backward()
"""
        finding = watched(source)
        assert finding.title == ("look_up(x).sum() does not require grad: offset.long() detached it from the graph.")
        assert finding.source == at(source)
        assert finding.fix.startswith("Keep offset in floating point here; integers are for labels and indices.")
        assert finding.exact

    def test_without_source_the_line_is_known_all_the_same(self):
        source = f"{SETUP}h = model(x).detach()\nloss = h.sum()\nloss.backward()\n"
        with bs.watch(level="exact"):
            finding = bs.explain(failing(source, readable=False))
        assert finding.code == "BS203"
        assert finding.source == "train.py:6"

    def test_a_harmless_cut_elsewhere_is_not_blamed(self):
        source = f"""{SETUP}
log = []
h = model(x)
log.append(h.detach())
loss = head(h).argmax(0).float().sum()  # here
loss.backward()
"""
        assert watched(source).source == at(source)

    CALLED = f"""{SETUP}
def encode(x):
    return model(x)
DECORATOR
def score(x):
    return encode(x).sum()  # scores
losses = {{"score": score}}  # which the text does not lead to
def evaluate():
    with torch.no_grad():
        return encode(x)
evaluate()
CALL
(-loss).backward()
"""

    def test_the_decorator_of_a_caller_is_named(self):
        source = self.CALLED.replace("DECORATOR", "@torch.no_grad()  # here").replace(
            "CALL", 'loss = losses["score"](x)'
        )
        finding = watched(source)
        assert finding.source == at(source)
        assert finding.fix.startswith("Remove @torch.no_grad() from score; it belongs on functions that only evaluate.")
        assert f"{at(source, '# scores')}  return encode(x).sum()\n    runs inside it." in evidence(finding)
        assert finding.exact

    def test_the_block_two_callers_up_is_named(self):
        block = 'with torch.set_grad_enabled(False):  # here\n    loss = losses["score"](x)'
        source = self.CALLED.replace("DECORATOR", "").replace("CALL", block)
        finding = watched(source)
        assert finding.source == at(source)
        assert finding.fix.startswith(
            'Compute `loss = losses["score"](x)` outside the block `with torch.set_grad_enabled(False)`.'
        )

    def test_a_block_that_enables_them_ends_the_search(self):
        calls = """
def silent(x):
    torch.set_grad_enabled(False)
    out = encode(x)  # here
    torch.set_grad_enabled(True)
    return out
with torch.no_grad():
    with torch.enable_grad():
        loss = silent(x).sum()
"""
        source = self.CALLED.replace("DECORATOR", "").replace("CALL", calls)
        finding = watched(source)
        assert "ran while gradients were disabled" in finding.title
        assert "with torch.no_grad()" not in evidence(finding)

    def test_a_lambda_is_not_within_the_block_in_which_it_stands(self):
        calls = """
with torch.no_grad():
    late = lambda x: head(x)
    late(x)
def run():
    with torch.no_grad():  # here
        return late(x)
loss = run().sum()
"""
        source = self.CALLED.replace("DECORATOR", "").replace("CALL", calls)
        assert watched(source).source == at(source)

    KEPT = f"""{SETUP}
class Row:
    def __init__(self, error, size):
        self.error, self.size = error, size
rows = []
for k in range(3):
    h = model(x)
    rows.append(Row((h - k).pow(2).mean().item(), h.abs().mean().item()))  # here
def column(name):
    return GATHERED
(column("error").sum() + column("size").sum()).backward()
"""

    @needs_columns
    def test_every_number_of_a_statement_is_told_and_what_gathers_them_is_kept(self):
        gathered = "torch.tensor([getattr(r, name) for r in rows])"
        source = self.KEPT.replace("GATHERED", gathered)
        finding = watched(source)
        assert "(h - k).pow(2).mean().item() and h.abs().mean().item() detached it from the graph" in finding.title
        assert finding.source == at(source)
        assert "write `rows.append(Row((h - k).pow(2).mean(), h.abs().mean()))`, without .item()" in finding.fix
        assert f"replace {gathered} with torch.stack([getattr(r, name) for r in rows])." in finding.fix
        assert finding.exact


class TestCheckpoints:
    def test_the_operation_and_the_line_where_two_runs_part(self):
        source = f"""{SETUP}
from torch.utils.checkpoint import checkpoint
calls = []
def block(x):
    calls.append(1)
    x = model(x)
    if len(calls) == 1:
        x = x.exp()
    return x * x.cos()
loss = checkpoint(block, x, use_reentrant=False).sum()
loss.backward()
"""
        finding = watched(source)
        assert (
            "is where the two runs diverge at saved tensor 1: the first saved a float32 tensor of shape 5×4 "
            "(`result` of "
            "ExpBackward0), the second saved a float32 tensor of shape 5×4."
        ) not in evidence(finding)  # they are alike in shape: what can be told apart is what counts
        assert "is where the two runs diverge" in evidence(finding)


def test_a_watch_that_ended_before_is_not_asked():
    source = f"{SETUP}h = torch.exp(model(x))\nh.add_(1)\nh.sum().backward()\n"
    with bs.watch(level="exact"):
        error = failing(source)
    assert bs.explain(error).code == "BS202"


class TestChangedByAModule:
    @needs_columns
    def test_of_a_model_that_is_an_attribute_of_a_trainer(self):
        source = """
from torch import nn
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)
    def forward(self, x):
        gate = torch.sigmoid(self.layer(x))
        return gate * self.act(gate)  # here
class Trainer:
    def __init__(self):
        self.model = nn.Sequential(Gated(), nn.Linear(4, 1))
    def step(self):
        self.model(torch.randn(5, 4)).sum().backward()
Trainer().step()
"""
        finding = watched(source)
        assert finding.title == (
            "self.model.0.act, a ReLU created with inplace=True, changed what sigmoid had saved for backward."
        )
        assert finding.source == at(source)
        assert finding.fix == "Create that ReLU without inplace=True: train.py:5, nn.ReLU(inplace=True)."
