"""BS210: which checkpointed function ran differently the second time, and what in it may."""

import random

import pytest
from failures import at, evidence, explained

SETUP = """
import random
import numpy as np
from torch import nn
from torch.utils.checkpoint import checkpoint
random.seed(1), np.random.seed(1)
generator, draw = np.random.default_rng(1), random.random
x = torch.ones(3, requires_grad=True)
"""

# A draw that decides how much is computed, and what the fix puts in its place.
DRAWS = {
    "random.random()": "torch.rand(())",
    "draw()": "torch.rand(())",
    "np.random.rand()": "torch.rand(())",
    "generator.random()": "torch.rand(())",
    "random.gauss(0.5, 0.2)": "torch.randn(())",
    "random.randint(0, 1)": "torch.randint(...)",
    "random.choice([0.0, 1.0])": "torch.randint(...)",
}


@pytest.fixture(autouse=True)
def python_random_state():
    state = random.getstate()
    yield
    random.setstate(state)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_that_pytorch_does_not_restore(draw):
    source = f"""{SETUP}
def block(x):
    if {draw} < 0.5:  # here
        return x * 2
    return x.sin().cos().exp()

for _ in range(100):
    y = checkpoint(block, x, use_reentrant=False)
    y.sum().backward()
"""
    finding = explained(source)
    assert finding.code == "BS210"
    assert finding.title == "block computed something different when checkpoint reran it for backward."
    assert finding.source == at(source)
    assert f"{draw} draws a different number in the second run." in evidence(finding)
    line = at(source).split(":")[1]
    has_arguments = not draw.endswith("()")
    how = f"{DRAWS[draw]} instead of {draw}" if has_arguments else f"on line {line}, write `if {DRAWS[draw]} < 0.5:`"
    assert how in finding.fix
    assert not finding.exact


def test_the_module_is_named_and_its_forward_is_followed():
    source = f"""{SETUP}
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return x if self.is_dropped() else self.layer(x).tanh()

    def is_dropped(self):
        return random.random() < 0.5  # here

blocks = nn.ModuleList(Block() for _ in range(12))
for block in blocks:
    x = checkpoint(block, x, use_reentrant=False)
x.sum().backward()
"""
    finding = explained(source)
    assert finding.title.startswith("blocks.")
    assert "(a Block) computed something different" in finding.title
    assert finding.source == at(source)
    assert f"{at(source, 'x = checkpoint')}  x = checkpoint(block, x, use_reentrant=False)" in evidence(finding)


COUNTER = f"""{SETUP}
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # here
        return x * 2 if self.calls > 1 else x.sin().cos()

block = Block()
checkpoint(block, x, use_reentrant=False).sum().backward()
"""


def test_a_counter_that_the_first_run_changes():
    finding = explained(COUNTER)
    assert finding.source == at(COUNTER)
    assert "changes self.calls, so the second run reads a different value" in evidence(finding)
    assert finding.fix.startswith("Count outside: remove line 15, and put `block.calls += 1` before line 19.")


def test_how_many_tensors_were_saved_is_evidence():
    assert "The first run saved 2 tensors for backward, the second 0." in explained(COUNTER).evidence


def test_more_tensors_than_the_first_time():
    source = COUNTER.replace("x * 2 if self.calls > 1 else", "x.sin() if self.calls == 1 else").replace(
        "checkpoint(block", "with torch.utils.checkpoint.set_checkpoint_early_stop(False):\n    y = checkpoint(block"
    )
    finding = explained(source.replace(".sum().backward()\n", "\ny.sum().backward()\n"))
    assert finding.code == "BS210"
    assert "The second run saved more tensors for backward than the first." in finding.evidence
    assert "block.calls += 1" in finding.fix


OTHER_DTYPE = f"""{SETUP}
calls = [0]
def block(x):
    calls[0] += 1  # here
    return (x.double() if calls[0] > 1 else x).sin().float()

y = checkpoint(block, x, use_reentrant=False)
y.sum().backward()
"""


def test_a_tensor_of_another_dtype():
    finding = explained(OTHER_DTYPE)
    assert (
        "The two runs diverge at saved tensor 0: the first saved a float32 tensor of shape 3 (`self` of SinBackward0), "
        "the second saved a float64 tensor of shape 3." in finding.evidence
    )
    assert finding.source == at(OTHER_DTYPE)


def test_with_debug_the_exception_that_started_it_is_read_too():
    finding = explained(OTHER_DTYPE.replace("use_reentrant=False", "use_reentrant=False, debug=True"))
    assert finding.code == "BS210"
    assert finding.source == at(OTHER_DTYPE)
    assert "Saved tensor 0 was float32" in evidence(finding)


def test_what_is_switched_between_forward_and_backward():
    source = f"""{SETUP}
class Block(nn.Module):
    def forward(self, x):
        if self.training:  # here
            return x.sin().cos()
        return x * 2

block = Block()
y = checkpoint(block, x, use_reentrant=False)
block.eval()
y.sum().backward()
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert "train() and eval()" in finding.fix


def test_where_nothing_shows_the_way_to_the_exact_answer_is_named():
    finding = explained(OTHER_DTYPE, readable=False)
    assert finding.title.startswith("block computed something different")
    assert "checkpoint(..., debug=True) lists the operations of both runs." in evidence(finding)
    assert not finding.exact
