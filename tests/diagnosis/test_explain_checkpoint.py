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


@pytest.fixture(autouse=True)
def python_random_state():
    state = random.getstate()
    yield
    random.setstate(state)


OTHER_DTYPE = f"""{SETUP}
calls = [0]
def block(x):
    calls[0] += 1  # here
    return (x.double() if calls[0] > 1 else x).sin().float()

y = checkpoint(block, x, use_reentrant=False)
y.sum().backward()
"""


def test_where_nothing_shows_the_way_to_the_exact_answer_is_named():
    finding = explained(OTHER_DTYPE, readable=False)
    assert finding.title.startswith("block computed something different")
    assert "checkpoint(..., debug=True) lists the operations of both runs." in evidence(finding)
    assert not finding.exact


def test_with_debug_the_exception_that_started_it_is_read_too():
    finding = explained(OTHER_DTYPE.replace("use_reentrant=False", "use_reentrant=False, debug=True"))
    assert finding.code == "BS210"
    assert finding.source == at(OTHER_DTYPE)
    assert "Saved tensor 0 was float32" in evidence(finding)
