"""BS201: what is carried from one iteration, or one call, into the next."""

from failures import at, evidence, explained
from setups import HIDDEN_STATE

import backsight as bs


def projected(statement):
    """A training that keeps its weights in a set, by a statement that makes another tensor of them."""
    return f"""
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for x in torch.randn(4, 8, 3):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    {statement}  # here
"""


class TestCarried:
    def test_is_exact_where_a_watch_takes_note_of_the_steps(self):
        with bs.watch():
            finding = explained(HIDDEN_STATE)
        assert finding.exact
        assert finding.source == at(HIDDEN_STATE)
        assert "operations of this graph were recorded before the last optimizer step" in evidence(finding)
        assert "`backsight run`" not in evidence(finding)

    def test_one_operation_is_spoken_of_as_one(self):
        with bs.watch():
            finding = explained(projected("w = w.clamp(min=0.1)"))
        assert (
            "1 operation of this graph was recorded before the last optimizer step; the new part reaches it through"
            in (evidence(finding))
        )
